package attempts

import (
	"errors"
	"fmt"

	"examprep.dev/server/catalog"
)

// The codes of [Error]: machine-readable, in the HTTP contract (docs/spec.md, part 7).
const (
	// CodeExamNotFound, CodePaperNotFound and CodeAttemptNotFound answer with status 404.
	CodeExamNotFound    = "exam_not_found"
	CodePaperNotFound   = "paper_not_found"
	CodeAttemptNotFound = "attempt_not_found"

	// CodeAttemptClosed: 24 hours after the deadline nothing is accepted any more.
	CodeAttemptClosed = "attempt_closed"
	// CodeAlreadySubmitted: the attempt was submitted with other answers or another status.
	CodeAlreadySubmitted = "attempt_already_submitted"
	// CodeUnknownAnswerID: a key of answers names no question of the paper.
	CodeUnknownAnswerID = "unknown_answer_id"
	// CodeInvalidOption: an answer is not one of the question's letters, or not a number where one is asked for.
	CodeInvalidOption = "invalid_option"
	// CodeAmbiguousKey: a plain question number stands in several sections; the detail names the candidates.
	CodeAmbiguousKey = "ambiguous_answer_key"
	// CodeDuplicateKey: one question is answered under two keys.
	CodeDuplicateKey = "duplicate_answer_key"
	// CodeValidationFailed: a value that the HTTP interface should have refused already.
	CodeValidationFailed = "validation_failed"
)

// FieldError names one field of a request and what is wrong with it.
type FieldError struct {
	// Field is a path such as "answers.1:7".
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Error is a client's mistake. Nothing was written.
type Error struct {
	// Code is one of the codes above.
	Code string
	// Detail is a sentence for people.
	Detail string
	// Fields lists what is wrong, in the order of the request; empty when no field is to blame.
	Fields []FieldError
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// translate turns the catalogue's "not found" into this package's; a revision that is gone is a paper that is gone.
func translate(err error) error {
	var missing *catalog.NotFoundError
	if !errors.As(err, &missing) {
		return fmt.Errorf("read catalogue: %w", err)
	}
	if missing.What == "exam" {
		return &Error{Code: CodeExamNotFound, Detail: "No such exam."}
	}
	return &Error{Code: CodePaperNotFound, Detail: "No such paper in this exam."}
}
