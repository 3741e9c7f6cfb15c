package catalog

import (
	"fmt"
	"strings"
)

// ChangeKind is the kind of a change of a field.
type ChangeKind string

// The kinds of change.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// Change is one difference between two versions of an exam. It may show answers: it is for the exam's owner.
type Change struct {
	Kind ChangeKind `json:"kind"`
	// PaperID is empty for a field of the exam itself.
	PaperID string `json:"paper_id,omitempty"`
	// AnswerID names the question ("<section>:<number>"); empty for a field of the paper or the exam.
	AnswerID string `json:"answer_id,omitempty"`
	// Field is the changed field by its name in ExamContent ("answer", "options.B", "provenance.license"); empty when a
	// whole paper or question was added or removed.
	Field string `json:"field,omitempty"`
	// Old and New are the values, shortened for display. A whole paper or question shows its title or answer.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// String prints the change for a terminal, in one line.
func (c Change) String() string {
	switch {
	case c.Old == "" && c.New == "":
		return c.Place()
	case c.Kind == Changed:
		return fmt.Sprintf("%s: %s → %s", c.where(), c.Old, c.New)
	default:
		return c.Place() + ": " + c.Old + c.New // one of the two
	}
}

// Place prints where the change is and of what kind, and nothing of the values: no answer can be in it.
func (c Change) Place() string { return c.where() + " " + string(c.Kind) }

func (c Change) where() string {
	where := "exam"
	if c.PaperID != "" {
		where = "paper " + c.PaperID
	}
	if c.AnswerID != "" {
		where += " question " + c.AnswerID
	}
	if c.Field != "" {
		where += " " + c.Field
	}
	return where
}

// weight orders changes by their effect on a learner, the gravest first: answers and whole questions, the rest of a question, the
// paper, and last the seal itself.
func (c Change) weight() int {
	switch {
	case c.AnswerID != "" && (c.Field == "" || c.Field == "answer"):
		return 0
	case c.AnswerID != "":
		return 1
	case !strings.HasPrefix(c.Field, "verification."):
		return 2
	default:
		return 3
	}
}
