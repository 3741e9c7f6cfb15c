package main

import (
	"fmt"
	"strings"
)

// exception lets one subject break its rule for the time being.
type exception struct {
	subject string
	line    int
}

// parseExceptions reads lines such as "file server/gate/batch.go: reason". Empty lines and lines that begin with # are
// comments.
func parseExceptions(text string) ([]exception, error) {
	var exceptions []exception
	lines := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		subject, reason, _ := strings.Cut(line, ": ")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("line %d: %q has no reason, as SUBJECT: REASON", number, line)
		}
		if first := lines[subject]; first != 0 {
			return nil, fmt.Errorf("line %d: %q repeats line %d", number, subject, first)
		}
		lines[subject] = number
		exceptions = append(exceptions, exception{subject, number})
	}
	return exceptions, nil
}

// apply removes the findings that have an exception, and adds one for each exception that has no finding.
func apply(exceptions []exception, findings []finding) []finding {
	needed, excepted := map[string]bool{}, map[string]bool{}
	for _, e := range exceptions {
		excepted[e.subject] = true
	}
	var rest []finding
	for _, f := range findings {
		needed[f.subject] = true
		if !excepted[f.subject] {
			rest = append(rest, f)
		}
	}
	for _, e := range exceptions {
		if !needed[e.subject] {
			rest = append(rest, finding{e.subject, fmt.Sprintf("needs no exception any more; remove line %d of %s", e.line, exceptionsFile)})
		}
	}
	return rest
}
