package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// path leads from a document's root to a value: spec, papers, 2, prompt.
type path []step

// step is a key of a mapping, or an index into a sequence where key is empty.
type step struct {
	key   string
	index int
}

func (p path) field(key string) path { return append(slices.Clip(p), step{key: key}) }

func (p path) at(index int) path { return append(slices.Clip(p), step{index: index}) }

func (p path) join(tail path) path { return append(slices.Clip(p), tail...) }

// String prints the path as Kubernetes writes field paths: `spec.papers[2].prompt`, `data[questions.jsonl]`.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.key == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case strings.ContainsAny(s.key, ".[] /"):
			fmt.Fprintf(&b, "[%s]", s.key)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

// parsePath reads what String prints. Text that is no path becomes a single key: a field in a message is never lost.
func parsePath(text string) path {
	var p path
	for rest := text; rest != ""; {
		if rest[0] == '[' {
			inside, after, closed := strings.Cut(rest[1:], "]")
			if !closed || inside == "" {
				return path{{key: text}}
			}
			if index, err := strconv.Atoi(inside); err == nil && index >= 0 {
				p = p.at(index)
			} else {
				p = p.field(strings.Trim(inside, `"`))
			}
			rest = strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return path{{key: text}}
		}
		p = p.field(rest[:end])
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	return p
}
