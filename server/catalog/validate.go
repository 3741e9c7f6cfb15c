package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Problem is one broken rule. Field is a path by ExamContent's names, like "papers[2].questions[14].answer".
type Problem struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// ValidationError lists what is wrong with an exam, in the order of its fields.
type ValidationError struct {
	Problems []Problem
	// Omitted counts the problems beyond the first MaxProblems.
	Omitted int
}

// MaxProblems bounds the list of a ValidationError: a broken chunk of questions has thousands.
const MaxProblems = 100

func (e *ValidationError) Error() string {
	const shown = 5
	var b strings.Builder
	for i, problem := range e.Problems {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more problems", len(e.Problems)-shown+e.Omitted)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(problem.Field + ": " + problem.Detail)
	}
	return b.String()
}

// Validate returns a *ValidationError with every rule that exam breaks, or nil.
func Validate(exam Exam) error { return errUnfinished }

// ParseScoring reads the keys of an exam's free-form scoring object that have a meaning here (DESIGN §6); others are
// left alone. It fails with a *ValidationError whose fields begin with "scoring".
func ParseScoring(raw json.RawMessage) (Scoring, error) { return Scoring{}, errUnfinished }
