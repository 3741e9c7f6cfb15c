package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNotValidated is returned for a zero ValidExam.
var ErrNotValidated = errors.New("the exam was not validated: only Validate makes a ValidExam")

// ClaimConflictError reports that the exam key belongs to another resource, Owner. Nothing was changed.
type ClaimConflictError struct {
	ExamKey string
	Owner   Claim
}

func (e *ClaimConflictError) Error() string {
	return fmt.Sprintf("exam key %s belongs to %s", e.ExamKey, e.Owner)
}

// SealError reports that production refused a paper whose verification seal is missing, does not match its content, or is not
// signed by a trusted verifier. Nothing was published; the content published before is still served.
type SealError struct {
	ExamKey string
	PaperID string
	// Want is the digest of the given paper, which a reviewer would seal.
	Want Digest
	// Have is the digest in the paper's verification; empty without one.
	Have string
	// Untrusted is set if the digest is right and no trusted verifier signed it. It is the reason why the signature does not
	// count, a *seals.SignatureError.
	Untrusted error
	// Changes are the differences between the paper and its published revision, question by question. A paper that is not served
	// is "added" as a whole. They contain answers: only the owner may read them, never a client. The list is empty if the
	// claimant is not the owner.
	Changes []Change
	// Others are the IDs of the exam's further papers that the gate refuses.
	Others []string
	// Owner is the present owner of the exam key, which the claimant would have adopted with sealed papers. It is nil if the
	// claimant owns the key, or if it is free.
	Owner *Claim
	// Unclaimed is true when no resource owns the key and its exam is served. The claimant gets the key with its first sealed papers; until
	// then it can neither withdraw the exam nor see its answers.
	Unclaimed bool
}

func (e *SealError) Error() string {
	var b strings.Builder
	switch {
	case e.Untrusted != nil:
		fmt.Fprintf(&b, "paper %s is not signed by a trusted verifier: %v; let one sign what `examprep content digest --message` prints",
			e.PaperID, e.Untrusted)
	case e.Have == "":
		fmt.Fprintf(&b, "paper %s carries no verification seal; its digest is %s", e.PaperID, e.Want)
	default:
		fmt.Fprintf(&b, "paper %s is sealed as %s but its digest is %s", e.PaperID, e.Have, e.Want)
	}
	writeChanges(&b, e.Changes)
	if len(e.Others) > 0 {
		few := e.Others[:min(len(e.Others), shownOthers)]
		fmt.Fprintf(&b, " (further papers without a valid seal: %s", strings.Join(few, ", "))
		if more := len(e.Others) - len(few); more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap returns why the signature does not count, if that is what the seal lacks.
func (e *SealError) Unwrap() error { return e.Untrusted }

// An error message is read in a terminal and kept in a condition: it shows that many changes and papers.
const (
	shownChanges = 5
	shownOthers  = 5
)

// writeChanges appends the first few changes, those first that a reviewer must not miss.
func writeChanges(b *strings.Builder, changes []Change) {
	weighed := slices.Clone(changes)
	slices.SortStableFunc(weighed, func(a, b Change) int { return cmp.Compare(a.weight(), b.weight()) })
	for i, change := range weighed {
		if i == shownChanges {
			fmt.Fprintf(b, "; and %d more changes", len(weighed)-shownChanges)
			return
		}
		b.WriteString("; ")
		b.WriteString(change.String())
	}
}

// RevisionNotFoundError reports that a pin names a revision that was never published or is pruned, or that is not the claimant's.
type RevisionNotFoundError struct {
	ExamKey  string
	Revision int64
	// Unowned is true if the revision exists, but the key has no owner or its exam is withdrawn, and the claimant remembers no
	// publication.
	Unowned bool
}

func (e *RevisionNotFoundError) Error() string {
	if e.Unowned {
		return fmt.Sprintf("revision %d of exam %s was published by another resource: publish the declared exam before a roll-back",
			e.Revision, e.ExamKey)
	}
	return fmt.Sprintf("exam %s has no revision %d", e.ExamKey, e.Revision)
}

// NotFoundError reports that an exam, a paper or a paper's revision does not exist, or no longer exists.
type NotFoundError struct {
	// What is "exam", "paper" or "revision".
	What string
	// Name is the exam key, paper ID or digest that was looked for.
	Name string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no such %s: %q", e.What, e.Name) }

// UnreadableError reports that PostgreSQL returned a stored row that cannot be decoded, or failed to read it because the row
// is damaged. A retry does not help until the row is repaired.
type UnreadableError struct {
	// What is "exam", "paper" or "answer key".
	What string
	// Name is the exam key, or the exam key and the digest of the paper's revision.
	Name string
	Err  error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("stored %s %s cannot be read: %v", e.What, e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// UnavailableError reports that a retry can succeed: a paper is not in the cache and PostgreSQL did not answer, or this pod was
// never able to read the exam and another pod may serve it. In the second case it wraps an *UnreadableError.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "catalogue unavailable: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
