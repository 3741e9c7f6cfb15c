package syntax

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path leads from a document's root to a value: spec, papers, 2, prompt.
type Path []Step

// Step is a key of a mapping, or an index into a sequence if Key is empty.
type Step struct {
	Key   string
	Index int
}

// Field returns the path of a key below p.
func (p Path) Field(key string) Path { return append(slices.Clip(p), Step{Key: key}) }

// At returns the path of an item below p.
func (p Path) At(index int) Path { return append(slices.Clip(p), Step{Index: index}) }

// Join returns p followed by tail.
func (p Path) Join(tail Path) Path { return append(slices.Clip(p), tail...) }

// String prints the path as Kubernetes writes field paths: `spec.papers[2].prompt`, `data[questions.jsonl]`.
func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.Key == "":
			fmt.Fprintf(&b, "[%d]", s.Index)
		case strings.ContainsAny(s.Key, ".[] /"):
			fmt.Fprintf(&b, "[%s]", s.Key)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Key)
		}
	}
	return b.String()
}

// ParsePath reads a path that String printed. Another text becomes a single key, so that no field of a message is lost.
func ParsePath(text string) Path {
	var p Path
	for rest := text; rest != ""; {
		if rest[0] == '[' {
			inside, after, closed := strings.Cut(rest[1:], "]")
			if !closed || inside == "" {
				return Path{{Key: text}}
			}
			if index, err := strconv.Atoi(inside); err == nil && index >= 0 {
				p = p.At(index)
			} else {
				p = p.Field(strings.Trim(inside, `"`))
			}
			rest = strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return Path{{Key: text}}
		}
		p = p.Field(rest[:end])
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	return p
}
