package content

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"examprep.dev/server/content/syntax"
)

// Problem is something wrong in a file, by its place and its field.
type Problem struct {
	syntax.Position

	// Field is a path into the resource, like `spec.papers[2].questions[14].answer`; empty for a broken file.
	Field string `json:"field,omitempty"`
	// Detail describes the problem for a person.
	Detail   string   `json:"detail"`
	Severity Severity `json:"severity"`
}

// Severity is the effect of a problem: an error prevents publication. A warning does not, except that of a seal, which production refuses.
type Severity string

// The severities. The zero value is an error.
const (
	SeverityError   Severity = ""
	SeverityWarning Severity = "warning"
)

// MarshalText writes "error" or "warning".
func (s Severity) MarshalText() ([]byte, error) { return []byte(cmp.Or(s, "error")), nil }

// String returns the position, the severity of a warning, the field and the detail, separated by colons.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Position.String())
	b.WriteString(": ")
	if p.Severity == SeverityWarning {
		b.WriteString("warning: ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Detail)
	return b.String()
}

// ProblemsError is returned for files with errors. A command exits with 1 then.
type ProblemsError struct{ Problems []Problem }

func (e *ProblemsError) Error() string {
	const shown = 5
	var b strings.Builder
	for i, problem := range e.Problems {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more problems", len(e.Problems)-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(problem.String())
	}
	return b.String()
}

// AsError returns a *ProblemsError of the errors among problems, or nil if there is none.
func AsError(problems []Problem) error {
	var failures []Problem
	for _, problem := range problems {
		if problem.Severity == SeverityError {
			failures = append(failures, problem)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return &ProblemsError{Problems: failures}
}

// SortProblems orders by file, line, column and field, and drops repetitions.
func SortProblems(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Sheet, b.Sheet), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Detail, b.Detail), cmp.Compare(a.Severity, b.Severity))
	})
	return slices.Compact(problems)
}

// WriteLines prints one line for each entry.
func WriteLines[T fmt.Stringer](w io.Writer, lines []T) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
