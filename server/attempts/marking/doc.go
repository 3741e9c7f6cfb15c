// Package marking marks a submission: it reads the answers, compares them with the paper's answer key, and encodes the
// feedback. It has no database and no clock: the same key and answers always give the same result.
//
//	Prepare              key.go       an answer key → the form in which all requests share it
//	Key.Read             answers.go   a client's answers → one normal form, or an [*Error] that lists the mistakes
//	                     fold.go      the normal form of texts and numbers, also of those of the key
//	Key.Grade            grade.go     normal answers → marks: partial credit, pass mark, scaled score
//	Feedback.AppendJSON  feedback.go  marks → the response
//
// # Rules
//
// Marks are integers, in millionths, so no sum drifts (marks.go). The maximum of a paper is the sum of the correct marks of
// all questions that a machine can mark. An annulled question is correct for everyone. An unmarkable question counts in
// neither score nor maximum; a paper of such questions only has no score. Partial credit, if the exam's scoring has it, is
// for questions with several right letters: the share of them that was chosen, and none at all with a wrong letter
// ([Key.Grade]).
//
// [Key.AppendAnswers] encodes the answers that package attempts stores. Their bytes are covered by the submission's digest.
package marking
