package recording

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Allowed is one line of a list of expected differences: a pattern for the exchange's name, one for the part, and the
// reason. "*" in a pattern stands for any characters.
type Allowed struct {
	Line                   int
	Exchange, Part, Reason string
}

// String returns the entry as it is written in its file.
func (a Allowed) String() string {
	return fmt.Sprintf("line %d: %s %s %s", a.Line, a.Exchange, a.Part, a.Reason)
}

// Allows reports whether the entry covers a difference.
func (a Allowed) Allows(d Difference) bool {
	return matches(a.Exchange, d.Exchange) && matches(a.Part, d.Part)
}

// ReadAllowed reads a list of expected differences. Empty lines and lines that begin with "#" are skipped.
func ReadAllowed(r io.Reader) ([]Allowed, error) {
	var list []Allowed
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("line %d: want EXCHANGE PART REASON, have %q", number, line)
		}
		list = append(list, Allowed{Line: number, Exchange: fields[0], Part: fields[1], Reason: strings.Join(fields[2:], " ")})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the allowed differences: %w", err)
	}
	return list, nil
}

// Split separates differences that an entry allows from the rest, and returns the entries that allow none. Each entry that
// covers a difference counts as used.
func Split(found []Difference, allowed []Allowed) (unexpected, expected []Difference, unused []Allowed) {
	used := make([]bool, len(allowed))
	for _, difference := range found {
		covered := false
		for i, entry := range allowed {
			if entry.Allows(difference) {
				used[i], covered = true, true
			}
		}
		if covered {
			expected = append(expected, difference)
		} else {
			unexpected = append(unexpected, difference)
		}
	}
	for i, entry := range allowed {
		if !used[i] {
			unused = append(unused, entry)
		}
	}
	return unexpected, expected, unused
}

// matches reports whether text has the form of pattern, in which "*" stands for any characters.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, found := strings.CutPrefix(text, parts[0])
	if !found {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, last)
}
