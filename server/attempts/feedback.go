package attempts

import (
	"fmt"
	"slices"
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
	dst = fmt.Appendf(slices.Grow(dst, size), `{"status":%q,"late":%t`, f.Status, f.Late)
	if f.OvertimeSec != 0 {
		dst = fmt.Appendf(dst, `,"overtime_sec":%d`, f.OvertimeSec)
	}
	if f.Outcome != nil {
		dst = f.appendMembers(dst)
	}
	return fmt.Appendf(dst, `,"started_at":%q,"submitted_at":%q,"duration_sec":%d}`,
		f.StartedAt.Format(time.RFC3339Nano), f.SubmittedAt.Format(time.RFC3339Nano), f.DurationSec)
}

// appendMembers appends the outcome's members, each after a comma.
func (o *Outcome) appendMembers(dst []byte) []byte {
	dst = fmt.Appendf(dst, `,"score":%v,"raw_score":%v,"max_score":%v,"percentage":%v`,
		o.Score, o.RawScore, o.MaxScore, o.Percentage)
	if o.Passed != nil {
		dst = fmt.Appendf(dst, `,"passed":%t`, *o.Passed)
	}
	if o.Scaled != nil {
		dst = o.Scaled.append(append(dst, `,"scaled":`...))
	}
	dst = fmt.Appendf(dst, `,"correct_count":%d,"incorrect_count":%d,"unanswered_count":%d,"ungraded_count":%d,"sections":[`,
		o.CorrectCount, o.IncorrectCount, o.UnansweredCount, o.UngradedCount)
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
	return fmt.Appendf(dst, `{"value":%v,"min":%v,"max":%v,"label":%s,"basis":"official"}`,
		jsontext.Float(s.Value), jsontext.Float(s.Min), jsontext.Float(s.Max), appendText(nil, s.Label))
}

func (s SectionResult) append(dst []byte) []byte {
	return fmt.Appendf(dst, `{"name":%s,"raw_score":%v,"max_score":%v,"percentage":%v}`,
		appendText(nil, s.Name), s.RawScore, s.MaxScore, s.Percentage)
}

func (q QuestionResult) append(dst []byte) []byte {
	dst = appendText(append(dst, q.question.head...), q.submitted)
	dst = append(append(dst, q.question.middle...), q.verdict...)
	return append(q.marks.append(append(dst, `,"marks":`...)), q.question.tail...)
}
