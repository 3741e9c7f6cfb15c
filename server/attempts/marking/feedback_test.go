package marking

import (
	"bytes"
	stdjson "encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit/check"
)

// The tests compare JSON, so they encode results as the product does.

func (f Feedback) MarshalJSON() ([]byte, error)       { return f.AppendJSON(nil), nil }
func (s *scaledScore) MarshalJSON() ([]byte, error)   { return s.append(nil), nil }
func (s sectionResult) MarshalJSON() ([]byte, error)  { return s.append(nil), nil }
func (q questionResult) MarshalJSON() ([]byte, error) { return q.append(nil), nil }

// The reference structs declare the feedback's members for an encoder that works by reflection.
type (
	referenceFeedback struct {
		Status      string `json:"status"`
		Late        bool   `json:"late"`
		OvertimeSec int64  `json:"overtime_sec,omitzero"`
		*referenceOutcome
		StartedAt   time.Time `json:"started_at"`
		SubmittedAt time.Time `json:"submitted_at"`
		DurationSec int64     `json:"duration_sec"`
	}
	referenceOutcome struct {
		Score           jsontext.Value      `json:"score,omitzero"`
		RawScore        jsontext.Value      `json:"raw_score,omitzero"`
		MaxScore        jsontext.Value      `json:"max_score,omitzero"`
		Percentage      jsontext.Value      `json:"percentage,omitzero"`
		Passed          *bool               `json:"passed,omitempty"`
		Scaled          *referenceScaled    `json:"scaled,omitempty"`
		CorrectCount    int                 `json:"correct_count"`
		IncorrectCount  int                 `json:"incorrect_count"`
		UnansweredCount int                 `json:"unanswered_count"`
		UngradedCount   int                 `json:"ungraded_count"`
		Sections        []referenceSection  `json:"sections,omitzero"`
		Questions       []referenceQuestion `json:"questions"`
	}
	referenceScaled struct {
		Value float64 `json:"value"`
		Min   float64 `json:"min"`
		Max   float64 `json:"max"`
		Label *string `json:"label,omitempty"`
		Basis string  `json:"basis"`
	}
	referenceSection struct {
		Name       *string        `json:"name,omitempty"`
		RawScore   jsontext.Value `json:"raw_score"`
		MaxScore   jsontext.Value `json:"max_score"`
		Percentage jsontext.Value `json:"percentage"`
	}
	referenceQuestion struct {
		AnswerID       string         `json:"answer_id"`
		QuestionNumber int            `json:"question_number"`
		Submitted      *string        `json:"submitted,omitempty"`
		CorrectAnswer  *string        `json:"correct_answer,omitempty"`
		IsCorrect      *bool          `json:"is_correct,omitempty"`
		Marks          jsontext.Value `json:"marks"`
		MaxMarks       jsontext.Value `json:"max_marks"`
		Explanation    *string        `json:"explanation,omitempty"`
		Annulled       bool           `json:"annulled"`
	}
)

// encodeByReflection encodes feedback on answers with the options of package endpoint, which cannot encode invalid UTF-8,
// and with U+FFFD for that.
func encodeByReflection(t *rapid.T, f Feedback, key *catalog.AnswerKey, answers []string) []byte {
	t.Helper()
	reference := referenceFeedback{
		Status: f.Status, Late: f.Late, OvertimeSec: f.OvertimeSec,
		StartedAt: f.StartedAt, SubmittedAt: f.SubmittedAt, DurationSec: f.DurationSec,
	}
	if f.Outcome != nil {
		reference.referenceOutcome = referenceOf(f.Outcome, key, answers)
	}
	encoded, err := json.Marshal(reference, jsontext.AllowInvalidUTF8(true))
	check.NoError(t, err)
	return encoded
}

func referenceOf(o *Outcome, key *catalog.AnswerKey, answers []string) *referenceOutcome {
	reference := &referenceOutcome{
		Score: hundredths(o.Score), RawScore: millionths(o.raw), MaxScore: millionths(o.max),
		Percentage: hundredths(o.Score), Passed: o.passed, CorrectCount: o.correct, IncorrectCount: o.incorrect,
		UnansweredCount: o.unanswered, UngradedCount: o.ungraded,
		Sections: []referenceSection{}, Questions: []referenceQuestion{},
	}
	if s := o.scaled; s != nil {
		reference.Scaled = &referenceScaled{s.value, s.min, s.max, textOrNil(s.label), "official"}
	}
	for _, s := range o.sections {
		reference.Sections = append(reference.Sections, referenceSection{
			textOrNil(s.name), millionths(s.raw), millionths(s.max), hundredths(percentageOf(s.raw, s.max)),
		})
	}
	for i, q := range key.Keys {
		result := referenceQuestion{
			AnswerID: markingtest.AnswerName(q), QuestionNumber: q.Number,
			Submitted: textOrNil(answers[i]), CorrectAnswer: textOrNil(correctAnswer(q)),
			Marks: millionths(o.questions[i].marks), MaxMarks: millionths(marksOf(key.Marking.Correct)),
			Explanation: textOrNil(q.Explanation), Annulled: q.Answer.Kind == catalog.AnswerAnnulled,
		}
		if q.Answer.Kind == catalog.AnswerUnmarkable {
			result.MaxMarks = millionths(0)
		} else {
			result.IsCorrect = new(o.questions[i].verdict == correct)
		}
		reference.Questions = append(reference.Questions, result)
	}
	if !slices.ContainsFunc(key.Keys, func(q catalog.QuestionKey) bool { return q.Answer.Kind != catalog.AnswerUnmarkable }) {
		reference.Score, reference.RawScore, reference.MaxScore, reference.Percentage, reference.Sections = nil, nil, nil, nil, nil
		reference.Scaled = nil
	}
	return reference
}

func millionths(m marks) jsontext.Value { return jsontext.Value(markingtest.Decimal(asRat(m))) }

func hundredths(p Percentage) jsontext.Value { return millionths(marks(p) * oneMark / 100) }

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// nastyText draws what encoders treat differently.
func nastyText(t *rapid.T, label string) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"", "plain", "<b>&amp;</b>", "\u2028\u2029", "\xff\xfe", "\x00\x1f\x7f", "\"\\/", "\b\f\n\r\t", "é€😀", "\ufffd",
		"\xed\xa0\x80",
	}), 0, 3).Draw(t, label)
	return strings.Join(parts, "")
}

// drawNastyKey draws a paper with nasty texts and every optional result.
func drawNastyKey(t *rapid.T) catalog.AnswerKey {
	key := drawKey(t)
	for i := range key.Keys {
		q := &key.Keys[i]
		q.SectionName = []string{"", "Two", "<III>\u2028\xff"}[q.Section-1]
		q.Explanation = nastyText(t, "explanation")
		if q.Answer.Kind == catalog.AnswerText && rapid.Bool().Draw(t, "nasty") {
			q.Answer.Text = nastyText(t, "text")
		}
	}
	number := rapid.Float64Range(-1e4, 1e22)
	if rapid.Bool().Draw(t, "pass mark") {
		key.Scoring.PassMark, key.Scoring.MaxScore = new(float64(rapid.IntRange(-1, 30).Draw(t, "pass mark"))), new(30.0)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "rows") {
		row := catalog.Conversion{Raw: float64(10*i - 10), Scaled: number.Draw(t, "scaled")}
		key.Scoring.Conversion = append(key.Scoring.Conversion, row)
	}
	if rapid.Bool().Draw(t, "scale") {
		key.Scoring.Scale = &catalog.Scale{Min: number.Draw(t, "min"), Max: number.Draw(t, "max")}
	}
	if rapid.Bool().Draw(t, "bands") {
		key.Scoring.Bands = []catalog.Band{{Label: nastyText(t, "label"), Min: -1e4, Max: 1e22}}
	}
	return key
}

// drawNastyAnswers draws normalised answers, nasty ones among them.
func drawNastyAnswers(t *rapid.T, key catalog.AnswerKey) []string {
	answers := drawAnswers(t, key)
	for i, q := range key.Keys {
		if nasty, problem := normalise(q, nastyText(t, "answer")); problem == nil && rapid.Bool().Draw(t, "nasty") {
			answers[i] = nasty
		}
	}
	return answers
}

func TestAppendedFeedbackEqualsThatOfAnEncoder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := drawNastyKey(t)
		answers := drawNastyAnswers(t, key)
		nanoseconds := rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")
		started := time.Unix(rapid.Int64Range(0, 1e11).Draw(t, "since 1970"), nanoseconds).UTC()
		seconds := rapid.Int64Range(0, 1e6).Draw(t, "duration")
		feedback := Feedback{
			Status:      rapid.SampledFrom([]string{"submitted", "expired", "abandoned"}).Draw(t, "status"),
			Late:        rapid.Bool().Draw(t, "late"),
			OvertimeSec: rapid.SampledFrom([]int64{0, 61, 86_400}).Draw(t, "overtime"),
			StartedAt:   started, SubmittedAt: started.Add(time.Duration(seconds) * time.Second), DurationSec: seconds,
		}
		if feedback.Status != "abandoned" {
			feedback.Outcome = prepared(&key).Grade(answers)
		}
		got, want := feedback.AppendJSON([]byte("before ")), encodeByReflection(t, feedback, &key, answers)
		if rest, kept := bytes.CutPrefix(got, []byte("before ")); !kept || !bytes.Equal(rest, want) {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
	})
}

func TestStoredAnswersEqualAnEncodedMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := drawNastyKey(t)
		slices.Reverse(key.Keys) // ids sort by text, whatever their order in the paper
		answers := drawNastyAnswers(t, key)
		byID := map[string]string{}
		for i, q := range key.Keys {
			if answers[i] != "" {
				byID[markingtest.AnswerName(q)] = answers[i]
			}
		}
		want, err := stdjson.Marshal(byID)
		check.NoError(t, err)
		if got := prepared(&key).AppendAnswers(nil, answers); !bytes.Equal(got, want) {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
	})
}
