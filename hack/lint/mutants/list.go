package main

import (
	"fmt"
	"regexp"
	"strings"
)

// mutant is a change of one file that a test must notice.
type mutant struct {
	line          int // of the record in the list
	file          string
	old, replaced string
	pkg, test     string
}

func (m *mutant) String() string { return fmt.Sprintf("%s (line %d)", m.file, m.line) }

// parseMutants reads the list. The form is in the package comment.
func parseMutants(text string) ([]mutant, error) {
	var list []mutant
	var block []string
	first := 0
	for number, line := range strings.Split(text+"\n", "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) != "":
			if len(block) == 0 {
				first = number + 1
			}
			block = append(block, line)
		case len(block) > 0:
			m, err := parseMutant(block)
			if err != nil {
				return nil, fmt.Errorf("record of line %d: %w", first, err)
			}
			m.line, block = first, nil
			list = append(list, m)
		}
	}
	return list, nil
}

func parseMutant(block []string) (m mutant, err error) {
	var old, replaced []string
	for _, line := range block {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "file":
			m.file = rest
		case "-":
			old = append(old, rest)
		case "+":
			replaced = append(replaced, rest)
		case "test":
			m.pkg, m.test, _ = strings.Cut(rest, " ")
		default:
			return m, fmt.Errorf("%q begins with none of file, -, +, test", line)
		}
	}
	m.old, m.replaced = strings.Join(old, "\n"), strings.Join(replaced, "\n")
	switch {
	case m.file == "" || m.test == "":
		return m, fmt.Errorf("file or test is missing")
	case m.old == m.replaced || m.old == "":
		return m, fmt.Errorf("the texts are equal, or the old one is missing")
	}
	if _, err := regexp.Compile(m.test); err != nil {
		return m, fmt.Errorf("test: %w", err)
	}
	return m, nil
}

// apply returns the changed file.
func (m *mutant) apply(text string) (string, error) {
	if count := strings.Count(text, m.old); count != 1 {
		return "", fmt.Errorf("the old text occurs %d times in the file, not once", count)
	}
	return strings.Replace(text, m.old, m.replaced, 1), nil
}

// pattern returns the value of -run: a name is that test alone.
func (m *mutant) pattern() string {
	if regexp.MustCompile(`^\w+$`).MatchString(m.test) {
		return "^" + m.test + "$"
	}
	return m.test
}

// selected reports whether the test's package is one of patterns such as ./server/... or ./server/keys. No pattern selects
// all.
func (m *mutant) selected(patterns []string) bool {
	for _, pattern := range patterns {
		folder, below := strings.CutSuffix(pattern, "/...")
		if m.pkg == folder || below && strings.HasPrefix(m.pkg, folder+"/") {
			return true
		}
	}
	return len(patterns) == 0
}
