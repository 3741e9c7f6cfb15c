package marking

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Feedback is the response to a submission (docs/spec.md, part 2). An attempt that was not scored has no Outcome, and shows
// nothing of the answer key.
type Feedback struct {
	// Status is the attempt's state.
	Status string
	// Late reports whether the submission came after the deadline and its grace, OvertimeSec by how many seconds after the
	// deadline.
	Late        bool
	OvertimeSec int64
	*Outcome
	StartedAt   time.Time
	SubmittedAt time.Time
	DurationSec int64
}

// Outcome is a scored submission.
type Outcome struct {
	// Score is the percentage of the maximum. It means nothing if no machine can mark any question of the paper ([Key.Markable]).
	Score Percentage
	// AnsweredCount is the number of questions with an answer, also of those that no machine can mark.
	AnsweredCount int

	raw, max marks        // raw can be negative
	passed   *bool        // nil unless the exam's scoring gives both pass_mark and max_score
	scaled   *scaledScore // nil unless the exam's scoring gives an official conversion
	// The four counts add up to the number of questions. Annulled questions count as correct; an answer that earned part of
	// the marks counts as incorrect.
	correct, incorrect, unanswered, ungraded int

	sections  []sectionResult
	questions []questionResult // in paper order
	sizeBytes int              // of the questions' JSON, estimated
}

// scaledScore is a score on the publisher's own scale, never an estimate.
type scaledScore struct {
	value, min, max float64
	label           string // of the band that has the value; empty if none has
}

// sectionResult is the score of one section; its name can be empty.
type sectionResult struct {
	name     string
	raw, max marks
}

// questionResult is what differs between two results of one question.
type questionResult struct {
	question  *question
	submitted string // normalised; empty when unanswered
	verdict   verdict
	marks     marks
}

// verdict reports whether an answer is right, as JSON, empty if that is unknown.
type verdict string

const (
	correct   verdict = "true"
	incorrect verdict = "false"
	ungraded  verdict = "" // no machine can mark the question
)

const (
	// fixedBytes is about the length of a feedback's JSON without its questions, sections included.
	fixedBytes = 1024
	// variableBytes is about the length of what differs between two results of a question.
	variableBytes = 48
)

// AppendJSON appends the feedback to dst as a JSON object.
func (f Feedback) AppendJSON(dst []byte) []byte {
	size := fixedBytes
	if f.Outcome != nil {
		size += f.sizeBytes
	}
	dst = append(slices.Grow(dst, size), `{"status":"`...)
	dst = append(append(dst, f.Status...), `","late":`...)
	dst = strconv.AppendBool(dst, f.Late)
	if f.OvertimeSec != 0 {
		dst = appendCount(dst, "overtime_sec", f.OvertimeSec)
	}
	if f.Outcome != nil {
		dst = f.appendMembers(dst)
	}
	dst = append(f.StartedAt.AppendFormat(append(dst, `,"started_at":"`...), time.RFC3339Nano), '"')
	dst = append(f.SubmittedAt.AppendFormat(append(dst, `,"submitted_at":"`...), time.RFC3339Nano), '"')
	return append(appendCount(dst, "duration_sec", f.DurationSec), '}')
}

// appendMembers appends the outcome's members, each after a comma. Without a score it has the counts and the questions only.
func (o *Outcome) appendMembers(dst []byte) []byte {
	isScored := o.max > 0
	if isScored {
		dst = o.Score.append(append(dst, `,"score":`...))
		dst = appendMarks(dst, o.raw, o.max, o.Score)
	}
	if o.passed != nil {
		dst = strconv.AppendBool(append(dst, `,"passed":`...), *o.passed)
	}
	if isScored && o.scaled != nil {
		dst = o.scaled.append(append(dst, `,"scaled":`...))
	}
	dst = appendCount(dst, "correct_count", int64(o.correct))
	dst = appendCount(dst, "incorrect_count", int64(o.incorrect))
	dst = appendCount(dst, "unanswered_count", int64(o.unanswered))
	dst = appendCount(dst, "ungraded_count", int64(o.ungraded))
	if isScored {
		dst = appendList(append(dst, `,"sections":[`...), o.sections, sectionResult.append)
	}
	return appendList(append(dst, `,"questions":[`...), o.questions, questionResult.append)
}

func (s *scaledScore) append(dst []byte) []byte {
	dst = append(append(dst, `{"value":`...), jsontext.Float(s.value).String()...)
	dst = append(append(dst, `,"min":`...), jsontext.Float(s.min).String()...)
	dst = append(append(dst, `,"max":`...), jsontext.Float(s.max).String()...)
	return append(appendMember(dst, "label", s.label), `,"basis":"official"}`...)
}

func (s sectionResult) append(dst []byte) []byte {
	first := len(dst)
	dst = appendMarks(appendMember(dst, "name", s.name), s.raw, s.max, percentageOf(s.raw, s.max))
	dst[first] = '{' // instead of the first member's comma
	return append(dst, '}')
}

func (q questionResult) append(dst []byte) []byte {
	dst = append(appendMember(append(dst, q.question.head...), "submitted", q.submitted), q.question.middle...)
	if q.verdict != ungraded {
		dst = append(append(dst, `,"is_correct":`...), q.verdict...)
	}
	return append(q.marks.append(append(dst, `,"marks":`...)), q.question.tail...)
}

// appendMarks appends the three members that a paper and a section have in common, each after a comma.
func appendMarks(dst []byte, raw, maximum marks, percentage Percentage) []byte {
	dst = raw.append(append(dst, `,"raw_score":`...))
	dst = maximum.append(append(dst, `,"max_score":`...))
	return percentage.append(append(dst, `,"percentage":`...))
}

// appendCount appends a member after a comma.
func appendCount(dst []byte, name string, count int64) []byte {
	return strconv.AppendInt(append(append(append(dst, `,"`...), name...), `":`...), count, 10)
}

// appendList appends the elements of a list whose bracket is open, and the closing bracket.
func appendList[E any](dst []byte, list []E, appendElement func(E, []byte) []byte) []byte {
	for i, element := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendElement(element, dst)
	}
	return append(dst, ']')
}
