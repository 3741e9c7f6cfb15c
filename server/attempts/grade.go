package attempts

import (
	"math/big"
	"slices"
	"strings"

	"examprep.dev/server/catalog"
)

// grade scores normalised answers, one per question in paper order. It is pure: the same key and answers always give
// the same Outcome.
func (k *PreparedKey) grade(answers []string) *Outcome {
	out := k.outcome
	out.Sections = slices.Clone(k.outcome.Sections)
	out.Questions = make([]QuestionResult, len(k.questions))
	for i := range k.questions {
		question := &k.questions[i]
		result := k.gradeQuestion(question, answers[i])
		out.count(result)
		out.RawScore += result.marks
		out.Sections[question.section].RawScore += result.marks
		out.Questions[i] = result
	}
	for i := range out.Sections {
		section := &out.Sections[i]
		section.Percentage = percentageOf(section.RawScore, section.MaxScore)
	}
	out.Percentage = percentageOf(out.RawScore, out.MaxScore)
	out.Score = out.Percentage
	out.Passed = passed(k.scoring, out.RawScore, out.MaxScore)
	out.Scaled = scale(k.scoring, out.RawScore)
	out.sizeBytes = k.textBytes + len(k.questions)*variableBytes
	return &out
}

func (o *Outcome) count(q QuestionResult) {
	if q.submitted != "" {
		o.answered++
	}
	switch {
	case q.verdict == ungraded:
		o.UngradedCount++
	case q.verdict == correct:
		o.CorrectCount++
	case q.submitted == "":
		o.UnansweredCount++
	default:
		o.IncorrectCount++
	}
}

func (k *PreparedKey) gradeQuestion(q *preparedQuestion, answer string) QuestionResult {
	result := QuestionResult{question: q, submitted: answer, verdict: incorrect}
	switch {
	case q.kind == catalog.AnswerUnmarkable:
		result.verdict = ungraded
	case q.kind == catalog.AnswerAnnulled, answer != "" && q.isCorrect(answer):
		result.verdict, result.marks = correct, k.correct
	case answer == "":
		result.marks = k.unanswered
	case k.scoring.PartialCredit && q.kind == catalog.AnswerChoices:
		result.marks = k.partialMarks(q, answer)
	default:
		result.marks = k.incorrect
	}
	return result
}

// partialMarks gives partial credit (scoring.partial_credit, several-letter questions only) for a set of letters that is
// not the right one. Without a wrong letter it is the right letters' share of the correct mark; with any wrong letter it is
// the incorrect mark. So choosing every option never earns anything unless every option is right.
func (k *PreparedKey) partialMarks(q *preparedQuestion, answer string) Marks {
	for letter := range strings.SplitSeq(answer, "") {
		if !slices.Contains(q.choices, letter) {
			return k.incorrect
		}
	}
	return k.correct.share(len(answer), len(q.choices))
}

// isCorrect compares a normalised answer with the key. It compares numbers exactly, without an epsilon.
func (q *preparedQuestion) isCorrect(answer string) bool {
	if q.kind != catalog.AnswerNumeric {
		return answer == q.right
	}
	given, ok := new(big.Rat).SetString(answer)
	return ok && q.lowest != nil && q.lowest.Cmp(given) <= 0 && given.Cmp(q.highest) <= 0
}

// passed compares the score with the pass mark, both on the scale of scoring.max_score. It returns nil when either is not
// given: without the scale, the pass mark of a paper with dropped questions would be too high.
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
	scaled := &Scaled{Value: row.Scaled, Min: row.Scaled, Max: row.Scaled}
	if scoring.Scale != nil {
		scaled.Min, scaled.Max = scoring.Scale.Min, scoring.Scale.Max
	} else {
		for _, other := range scoring.Conversion {
			scaled.Min, scaled.Max = min(scaled.Min, other.Scaled), max(scaled.Max, other.Scaled)
		}
	}
	for _, band := range scoring.Bands {
		if band.Min <= scaled.Value && scaled.Value <= band.Max {
			scaled.Label = band.Label
			break
		}
	}
	return scaled
}
