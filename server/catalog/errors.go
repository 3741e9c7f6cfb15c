package catalog

import (
	"fmt"
	"strings"
)

// ClaimConflictError says that the exam key belongs to another resource, Owner. Nothing was changed.
type ClaimConflictError struct {
	ExamKey string
	Owner   Claim
}

func (e *ClaimConflictError) Error() string {
	return fmt.Sprintf("exam key %s belongs to %s", e.ExamKey, e.Owner)
}

// SealError says that production refused a paper whose verification seal is missing or does not match its content.
// Nothing was published; what was published before stays up.
type SealError struct {
	ExamKey string
	PaperID string
	// Want is the digest of the paper as it was given: what a reviewer would seal.
	Want Digest
	// Have is the digest that the paper's verification carries; empty when it carries none.
	Have string
	// Changes tell how the paper differs from its published revision, question by question; the paper as a whole is
	// "added" when it is not published. They hold answers: for its owner's eyes, never for a client's.
	Changes []Change
	// Others are the IDs of the exam's further papers that the gate refuses.
	Others []string
}

func (e *SealError) Error() string {
	var b strings.Builder
	if e.Have == "" {
		fmt.Fprintf(&b, "paper %s carries no verification seal; its digest is %s", e.PaperID, e.Want)
	} else {
		fmt.Fprintf(&b, "paper %s is sealed as %s but its digest is %s", e.PaperID, e.Have, e.Want)
	}
	writeChanges(&b, e.Changes)
	if len(e.Others) > 0 {
		fmt.Fprintf(&b, " (further papers without a valid seal: %s)", strings.Join(e.Others, ", "))
	}
	return b.String()
}

// writeChanges appends the first few changes: an error message is read in a terminal and kept in a condition.
func writeChanges(b *strings.Builder, changes []Change) {
	const shown = 5
	for i, change := range changes {
		if i == shown {
			fmt.Fprintf(b, "; and %d more changes", len(changes)-shown)
			return
		}
		b.WriteString("; ")
		b.WriteString(change.String())
	}
}

// RevisionNotFoundError says that a pin names a revision that was never published or is pruned.
type RevisionNotFoundError struct {
	ExamKey  string
	Revision int64
}

func (e *RevisionNotFoundError) Error() string {
	return fmt.Sprintf("exam %s has no revision %d", e.ExamKey, e.Revision)
}

// NotFoundError says that an exam, a paper or a paper's revision does not exist (any more).
type NotFoundError struct {
	// What is "exam", "paper" or "revision".
	What string
	// Name is the exam key, paper ID or digest that was looked for.
	Name string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no such %s: %q", e.What, e.Name) }

// UnavailableError says that a paper is not in the cache and Postgres could not be asked: try again later.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "catalogue unavailable: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
