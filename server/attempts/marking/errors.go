package marking

// The codes of an [Error] in answers: machine-readable, in the HTTP contract (docs/spec.md, part 7).
const (
	// CodeUnknownAnswerID: a key of answers names no question of the paper.
	CodeUnknownAnswerID = "unknown_answer_id"
	// CodeInvalidOption: an answer is not one of the question's letters, or is too long.
	CodeInvalidOption = "invalid_option"
	// CodeAmbiguousKey: several sections have the plain question number; the detail names the candidates.
	CodeAmbiguousKey = "ambiguous_answer_key"
	// CodeDuplicateKey: one question is answered under two keys.
	CodeDuplicateKey = "duplicate_answer_key"
)

// FieldError names one field of a request and what is wrong with it.
type FieldError struct {
	// Field is a path such as "answers.1:7".
	Field  string
	Detail string
}

// Error is a client's mistake.
type Error struct {
	// Code is one of the codes above, or of package attempts.
	Code string
	// Detail is a sentence for people.
	Detail string
	// Fields lists the mistakes in the order of the request; empty if no field is wrong.
	Fields []FieldError
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }
