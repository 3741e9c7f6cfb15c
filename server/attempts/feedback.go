package attempts

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Feedback is the response to a submission (docs/spec.md, part 2). AppendJSON encodes it. An attempt that was not scored
// has no Outcome, and shows nothing of the answer key.
type Feedback struct {
	// Status is the attempt's state.
	Status State
	// Late reports that the submission came after the deadline and its grace, OvertimeSec by how many seconds after the
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
	// Score is the percentage: of MaxScore, floored at 0, two decimals.
	Score Percentage
	// RawScore may be negative.
	RawScore   Marks
	MaxScore   Marks
	Percentage Percentage
	// Passed is nil unless the exam's scoring gives both pass_mark and max_score.
	Passed *bool
	// Scaled is nil unless the exam's scoring gives an official conversion.
	Scaled *Scaled
	// The four counts add up to the number of questions. Annulled questions count as correct; an answer that earned
	// part of the marks counts as incorrect.
	CorrectCount    int
	IncorrectCount  int
	UnansweredCount int
	UngradedCount   int
	Sections        []SectionResult
	Questions       []QuestionResult

	answered  int // questions with an answer, gradable or not
	sizeBytes int // of the JSON, estimated
}

// Scaled is a score on the publisher's own scale. Nothing is estimated: its basis is always "official".
type Scaled struct {
	Value float64
	Min   float64
	Max   float64
	// Label is the band's that holds Value; empty when none does.
	Label string
}

// SectionResult is the score of one section, in paper order.
type SectionResult struct {
	// Name is empty when the paper does not name the section.
	Name       string
	RawScore   Marks
	MaxScore   Marks
	Percentage Percentage
}

// QuestionResult is the feedback on one question, in paper order. The rest of it is in the prepared key.
type QuestionResult struct {
	question  *preparedQuestion
	submitted string // normalised; empty when unanswered
	verdict   verdict
	marks     Marks
}

// verdict reports whether an answer is right, as JSON.
type verdict string

const (
	correct   verdict = "true"
	incorrect verdict = "false"
	ungraded  verdict = "null" // no machine can mark the question
)

const (
	// fixedBytes is about the length of a feedback's JSON without its questions, sections included.
	fixedBytes = 1024
	// variableBytes is about the length of what differs between two results of a question.
	variableBytes = 32
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
		dst = strconv.AppendInt(append(dst, `,"overtime_sec":`...), f.OvertimeSec, 10)
	}
	if f.Outcome != nil {
		dst = f.appendMembers(dst)
	}
	dst = appendTime(append(dst, `,"started_at":`...), f.StartedAt)
	dst = appendTime(append(dst, `,"submitted_at":`...), f.SubmittedAt)
	return append(strconv.AppendInt(append(dst, `,"duration_sec":`...), f.DurationSec, 10), '}')
}

// appendMembers appends the outcome's members, each after a comma.
func (o *Outcome) appendMembers(dst []byte) []byte {
	dst = o.Score.append(append(dst, `,"score":`...))
	dst = appendScores(append(dst, ','), o.RawScore, o.MaxScore, o.Percentage)
	if o.Passed != nil {
		dst = strconv.AppendBool(append(dst, `,"passed":`...), *o.Passed)
	}
	if o.Scaled != nil {
		dst = o.Scaled.append(append(dst, `,"scaled":`...))
	}
	dst = strconv.AppendInt(append(dst, `,"correct_count":`...), int64(o.CorrectCount), 10)
	dst = strconv.AppendInt(append(dst, `,"incorrect_count":`...), int64(o.IncorrectCount), 10)
	dst = strconv.AppendInt(append(dst, `,"unanswered_count":`...), int64(o.UnansweredCount), 10)
	dst = strconv.AppendInt(append(dst, `,"ungraded_count":`...), int64(o.UngradedCount), 10)
	dst = append(dst, `,"sections":[`...)
	for i, section := range o.Sections {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = section.append(dst)
	}
	dst = append(dst, `],"questions":[`...)
	for i, question := range o.Questions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = question.append(dst)
	}
	return append(dst, ']')
}

func (s *Scaled) append(dst []byte) []byte {
	dst = append(append(dst, `{"value":`...), jsontext.Float(s.Value).String()...)
	dst = append(append(dst, `,"min":`...), jsontext.Float(s.Min).String()...)
	dst = append(append(dst, `,"max":`...), jsontext.Float(s.Max).String()...)
	return append(appendText(append(dst, `,"label":`...), s.Label), `,"basis":"official"}`...)
}

func (s SectionResult) append(dst []byte) []byte {
	dst = appendText(append(dst, `{"name":`...), s.Name)
	return append(appendScores(append(dst, ','), s.RawScore, s.MaxScore, s.Percentage), '}')
}

func (q QuestionResult) append(dst []byte) []byte {
	dst = appendText(append(dst, q.question.head...), q.submitted)
	dst = append(append(dst, q.question.middle...), q.verdict...)
	return append(q.marks.append(append(dst, `,"marks":`...)), q.question.tail...)
}

// appendScores appends the three members that a paper and a section have in common.
func appendScores(dst []byte, raw, maximum Marks, percentage Percentage) []byte {
	dst = raw.append(append(dst, `"raw_score":`...))
	dst = maximum.append(append(dst, `,"max_score":`...))
	return percentage.append(append(dst, `,"percentage":`...))
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
}
