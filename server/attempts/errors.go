package attempts

import (
	"errors"
	"fmt"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/catalog"
)

// The codes of [Error] besides those of package marking: machine-readable, in the HTTP contract (docs/spec.md, part 7).
const (
	// CodeExamNotFound, CodePaperNotFound and CodeAttemptNotFound answer with status 404.
	CodeExamNotFound    = "exam_not_found"
	CodePaperNotFound   = "paper_not_found"
	CodeAttemptNotFound = "attempt_not_found"

	// CodeAttemptClosed: nothing is accepted later than 24 hours after the deadline.
	CodeAttemptClosed = "attempt_closed"
	// CodeAlreadySubmitted: the attempt was submitted with other answers or another status.
	CodeAlreadySubmitted = "attempt_already_submitted"
	// CodeValidationFailed: a value that the HTTP interface should have refused already.
	CodeValidationFailed = "validation_failed"
)

// Error is a client's mistake. Nothing was written.
type Error = marking.Error

// translate turns the catalogue's "not found" into this package's; a revision that is gone is a paper that is gone.
func translate(err error) error {
	missing, isMissing := errors.AsType[*catalog.NotFoundError](err)
	switch {
	case !isMissing:
		return fmt.Errorf("read catalogue: %w", err)
	case missing.What == "exam":
		return &Error{Code: CodeExamNotFound, Detail: "No such exam."}
	default:
		return &Error{Code: CodePaperNotFound, Detail: "No such paper in this exam."}
	}
}
