package attempts

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"examprep.dev/server/catalog"
)

// Feedback is the response to a submission (docs/spec.md, part 2). An attempt that was not scored has no Outcome,
// and shows nothing of the answer key.
type Feedback struct {
	// Status is the attempt's state.
	Status State `json:"status"`
	// Late tells that the submission came after the deadline and its grace, OvertimeSec by how many seconds after the
	// deadline.
	Late        bool  `json:"late"`
	OvertimeSec int64 `json:"overtime_sec,omitzero"`
	*Outcome
	StartedAt   time.Time `json:"started_at"`
	SubmittedAt time.Time `json:"submitted_at"`
	DurationSec int64     `json:"duration_sec"`
}

// Outcome is a scored submission.
type Outcome struct {
	// Score is the percentage: of MaxScore, floored at 0, two decimals.
	Score Percentage `json:"score"`
	// RawScore may be negative.
	RawScore   Marks      `json:"raw_score"`
	MaxScore   Marks      `json:"max_score"`
	Percentage Percentage `json:"percentage"`
	// Passed is nil unless the exam's scoring gives both pass_mark and max_score.
	Passed *bool `json:"passed,omitempty"`
	// Scaled is nil unless the exam's scoring gives an official conversion.
	Scaled *Scaled `json:"scaled,omitempty"`
	// The four counts add up to the number of questions. Annulled questions count as correct; an answer that earned
	// part of the marks counts as incorrect.
	CorrectCount    int              `json:"correct_count"`
	IncorrectCount  int              `json:"incorrect_count"`
	UnansweredCount int              `json:"unanswered_count"`
	UngradedCount   int              `json:"ungraded_count"`
	Sections        []SectionResult  `json:"sections"`
	Questions       []QuestionResult `json:"questions"`
}

// Scaled is a score on the publisher's own scale.
type Scaled struct {
	Value float64 `json:"value"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	// Label is the band's that holds Value; nil when none does.
	Label *string `json:"label"`
	// Basis is always "official": nothing is estimated.
	Basis string `json:"basis"`
}

// SectionResult is the score of one section, in paper order.
type SectionResult struct {
	// Name is nil when the paper does not name the section.
	Name       *string    `json:"name"`
	RawScore   Marks      `json:"raw_score"`
	MaxScore   Marks      `json:"max_score"`
	Percentage Percentage `json:"percentage"`
}

// QuestionResult is the feedback on one question, in paper order.
type QuestionResult struct {
	AnswerID       string `json:"answer_id"`
	QuestionNumber int    `json:"question_number"`
	// Submitted is the normalised answer; nil when unanswered.
	Submitted *string `json:"submitted"`
	// CorrectAnswer has the form that an answer has; nil for annulled and unmarkable questions.
	CorrectAnswer *string `json:"correct_answer"`
	// IsCorrect is nil for a question that no machine can mark.
	IsCorrect *bool `json:"is_correct"`
	Marks     Marks `json:"marks"`
	MaxMarks  Marks `json:"max_marks"`
	// Explanation is the publisher's, or nil; none is ever generated.
	Explanation *string `json:"explanation"`
	Annulled    bool    `json:"annulled"`
}

// grade scores normalised answers, one per question in paper order. It is pure: the same key and answers always give
// the same Outcome.
//
// Partial credit (scoring.partial_credit, several-letter questions only): without a wrong letter, the right letters'
// share of the correct mark; with any wrong letter, the incorrect mark. Choosing every option therefore never earns
// anything unless every option is right.
func (s sheet) grade(answers []string) *Outcome {
	key := s.key
	g := grader{
		correct: marksOf(key.Marking.Correct), incorrect: marksOf(key.Marking.Incorrect),
		unanswered: marksOf(key.Marking.Unanswered), partial: key.Scoring.PartialCredit,
	}
	out := &Outcome{Sections: []SectionResult{}, Questions: make([]QuestionResult, len(key.Keys))}
	sectionAt := map[int]int{}
	for i, q := range key.Keys {
		result := g.question(q, answers[i])
		result.AnswerID = s.ids[i]
		out.count(result)
		out.RawScore += result.Marks
		out.MaxScore += result.MaxMarks
		at, seen := sectionAt[q.Section]
		if !seen {
			at = len(out.Sections)
			sectionAt[q.Section] = at
			out.Sections = append(out.Sections, SectionResult{Name: textOrNil(q.SectionName)})
		}
		out.Sections[at].RawScore += result.Marks
		out.Sections[at].MaxScore += result.MaxMarks
		out.Questions[i] = result
	}
	for i := range out.Sections {
		section := &out.Sections[i]
		section.Percentage = percentageOf(section.RawScore, section.MaxScore)
	}
	out.Percentage = percentageOf(out.RawScore, out.MaxScore)
	out.Score = out.Percentage
	out.Passed = passed(key.Scoring, out.RawScore, out.MaxScore)
	out.Scaled = scale(key.Scoring, out.RawScore)
	return out
}

func (o *Outcome) count(q QuestionResult) {
	switch {
	case q.IsCorrect == nil:
		o.UngradedCount++
	case *q.IsCorrect:
		o.CorrectCount++
	case q.Submitted == nil:
		o.UnansweredCount++
	default:
		o.IncorrectCount++
	}
}

// grader holds a paper's marking.
type grader struct {
	correct, incorrect, unanswered Marks
	partial                        bool
}

func (g grader) question(q catalog.QuestionKey, answer string) QuestionResult {
	result := QuestionResult{
		QuestionNumber: q.Number, Submitted: textOrNil(answer), CorrectAnswer: textOrNil(correctAnswer(q)),
		Explanation: textOrNil(q.Explanation), Annulled: q.Answer.Kind == catalog.AnswerAnnulled,
	}
	if q.Answer.Kind == catalog.AnswerUnmarkable {
		return result
	}
	isCorrect := result.Annulled || (answer != "" && right(q, answer))
	result.IsCorrect, result.MaxMarks = &isCorrect, g.correct
	switch {
	case isCorrect:
		result.Marks = g.correct
	case answer == "":
		result.Marks = g.unanswered
	case g.partial && q.Answer.Kind == catalog.AnswerChoices:
		result.Marks = g.partly(q, answer)
	default:
		result.Marks = g.incorrect
	}
	return result
}

// partly gives partial credit for a set of letters that is not the right one.
func (g grader) partly(q catalog.QuestionKey, answer string) Marks {
	for letter := range strings.SplitSeq(answer, "") {
		if !slices.Contains(q.Answer.Choices, letter) {
			return g.incorrect
		}
	}
	return g.correct.share(len(answer), len(q.Answer.Choices))
}

// right compares a normalised answer with the key.
func right(q catalog.QuestionKey, answer string) bool {
	if q.Answer.Kind == catalog.AnswerNumeric {
		return within(answer, q.Answer.Number, q.Answer.Tolerance)
	}
	if q.Answer.Kind == catalog.AnswerText {
		return answer == foldText(q.Answer.Text)
	}
	return answer == correctAnswer(q)
}

// within reports |x − number| ≤ tolerance, exactly: all three are taken as the decimals they were written as (the
// shortest that read back as the same float), so 12.51 is within 0.01 of 12.5 and no epsilon is needed.
func within(x string, number, tolerance float64) bool {
	given, ok := new(big.Rat).SetString(x)
	if !ok {
		return false
	}
	centre, ok := new(big.Rat).SetString(formatNumber(number))
	if !ok { // an infinity or NaN, which validation does not let pass
		return false
	}
	allowed, ok := new(big.Rat).SetString(formatNumber(tolerance))
	if !ok {
		return false
	}
	distance := given.Sub(given, centre)
	return distance.Abs(distance).Cmp(allowed) <= 0
}

// correctAnswer writes the key as an answer would be written; "" where there is none.
func correctAnswer(q catalog.QuestionKey) string {
	switch q.Answer.Kind {
	case catalog.AnswerChoice, catalog.AnswerChoices:
		return joinLetters(q.Letters, q.Answer.Choices)
	case catalog.AnswerNumeric:
		return formatNumber(q.Answer.Number)
	case catalog.AnswerText:
		return q.Answer.Text
	default:
		return ""
	}
}

// passed compares the score with the pass mark, both on the scale of scoring.max_score; nil when either is not given,
// for a bare pass mark does not say what it is out of (papers with dropped questions have a smaller maximum).
func passed(scoring catalog.Scoring, raw, maximum Marks) *bool {
	if scoring.PassMark == nil || scoring.MaxScore == nil || maximum <= 0 {
		return nil
	}
	// raw ÷ maximum × max_score ≥ pass_mark, without dividing.
	have := new(big.Int).Mul(big.NewInt(int64(max(raw, 0))), big.NewInt(int64(marksOf(*scoring.MaxScore))))
	want := new(big.Int).Mul(big.NewInt(int64(maximum)), big.NewInt(int64(marksOf(*scoring.PassMark))))
	result := have.Cmp(want) >= 0
	return &result
}

// scale looks raw up in the official conversion: the row with the highest raw score that was reached. Between two rows
// nothing is interpolated, and below the lowest there is no scaled score.
func scale(scoring catalog.Scoring, raw Marks) *Scaled {
	var row *catalog.Conversion
	for i, candidate := range scoring.Conversion {
		if at := marksOf(candidate.Raw); at <= raw && (row == nil || at >= marksOf(row.Raw)) {
			row = &scoring.Conversion[i]
		}
	}
	if row == nil {
		return nil
	}
	scaled := &Scaled{Value: row.Scaled, Min: row.Scaled, Max: row.Scaled, Basis: "official"}
	if scoring.Scale != nil {
		scaled.Min, scaled.Max = scoring.Scale.Min, scoring.Scale.Max
	} else {
		for _, other := range scoring.Conversion {
			scaled.Min, scaled.Max = min(scaled.Min, other.Scaled), max(scaled.Max, other.Scaled)
		}
	}
	for _, band := range scoring.Bands {
		if band.Min <= scaled.Value && scaled.Value <= band.Max {
			scaled.Label = textOrNil(band.Label)
			break
		}
	}
	return scaled
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
