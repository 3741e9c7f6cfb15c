package play

import (
	"regexp"
	"strconv"
	"strings"

	"examprep.dev/hack/record/script"
	"examprep.dev/hack/record/wire"
)

var placeholder = regexp.MustCompile(`<<[a-z0-9-]+>>`)

// segments expands the templates of one exchange. A variable that is not set shows as a text that no server accepts.
func (r *Runner) segments(templates []string) []wire.Segment {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := ""
	expand := func(template string) string {
		return placeholder.ReplaceAllStringFunc(template, func(text string) string {
			name := strings.Trim(text, "<>")
			switch value, known := r.variables[name]; {
			case known:
				return value
			case name == "length":
				return text // when all else is expanded
			case name == "fresh" && fresh == "":
				fresh = r.takeFresh()
				return fresh
			case name == "fresh":
				return fresh
			default:
				return "missing-" + name
			}
		})
	}
	segments := make([]wire.Segment, len(templates))
	var whole strings.Builder
	for i, template := range templates {
		template, waits := strings.CutPrefix(template, script.Continue)
		text := expand(template)
		whole.WriteString(text)
		segments[i] = wire.Segment{Bytes: []byte(text), AfterContinue: waits}
	}
	_, body, _ := strings.Cut(whole.String(), "\r\n\r\n")
	for i := range segments {
		segments[i].Bytes = []byte(strings.ReplaceAll(string(segments[i].Bytes), "<<length>>", strconv.Itoa(len(body))))
	}
	return segments
}

// takeFresh must be called with the lock held.
func (r *Runner) takeFresh() string {
	if len(r.stock) == 0 {
		return "missing-fresh"
	}
	last := len(r.stock) - 1
	key := r.stock[last]
	r.stock = r.stock[:last]
	return key
}

// countFresh returns how many exchanges need a key of their own.
func countFresh(groups []script.Group) int {
	count := 0
	for _, group := range groups {
		for _, exchange := range group.Exchanges {
			if strings.Contains(strings.Join(exchange.Send, ""), "<<fresh>>") {
				count++
			}
		}
	}
	return count
}
