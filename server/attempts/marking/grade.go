package marking

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"examprep.dev/server/catalog"
)

// Grade scores normalised answers, one for each question in paper order.
func (k *Key) Grade(answers []string) *Outcome {
	out := k.outcome
	out.sections = slices.Clone(k.outcome.sections)
	out.questions = make([]questionResult, len(k.questions))
	for i := range k.questions {
		result := k.gradeQuestion(&k.questions[i], answers[i])
		out.count(result)
		out.raw += result.marks
		out.sections[result.question.section].raw += result.marks
		out.questions[i] = result
	}
	out.Score = percentageOf(out.raw, out.max)
	out.passed = k.passed(out.raw)
	out.scaled = k.scale(out.raw)
	return &out
}

func (o *Outcome) count(q questionResult) {
	if q.submitted != "" {
		o.AnsweredCount++
	}
	switch {
	case q.verdict == ungraded:
		o.ungraded++
	case q.verdict == correct:
		o.correct++
	case q.submitted == "":
		o.unanswered++
	default:
		o.incorrect++
	}
}

func (k *Key) gradeQuestion(q *question, answer string) questionResult {
	result := questionResult{question: q, submitted: answer, verdict: incorrect}
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
func (k *Key) partialMarks(q *question, answer string) marks {
	for letter := range strings.SplitSeq(answer, "") {
		if !slices.Contains(q.choices, letter) {
			return k.incorrect
		}
	}
	return k.correct.share(len(answer), len(q.choices))
}

// isCorrect compares a normalised answer with the key. It compares numbers exactly, without an epsilon.
func (q *question) isCorrect(answer string) bool {
	if q.kind != catalog.AnswerNumeric {
		return answer == q.right
	}
	x, err := strconv.ParseFloat(answer, 64)
	if err != nil || formatNumber(x) != answer || q.lowest == nil { // a folded text
		return false
	}
	given := decimalOf(x)
	return given != nil && q.lowest.Cmp(given) <= 0 && given.Cmp(q.highest) <= 0
}

// passMark returns the lowest raw score with raw ÷ maximum × max_score ≥ pass_mark, at least 0. It returns nil when either is not
// given: without the scale, the pass mark of a paper with dropped questions would be too high.
func passMark(scoring catalog.Scoring, maximum marks) *marks {
	if scoring.PassMark == nil || scoring.MaxScore == nil || maximum <= 0 {
		return nil
	}
	most, lowest := decimalOf(*scoring.MaxScore), decimalOf(*scoring.PassMark)
	if most == nil || lowest == nil || most.Sign() <= 0 {
		return nil
	}
	lowest.Mul(lowest, big.NewRat(int64(maximum), int64(oneMark)))
	return new(max(atLeast(lowest.Quo(lowest, most)), 0))
}

// passed reports whether raw passes; nil if there is no pass mark.
func (k *Key) passed(raw marks) *bool {
	if k.passMark == nil {
		return nil
	}
	return new(max(raw, 0) >= *k.passMark)
}

// scale looks raw up in the official conversion: the row with the highest raw score that was reached. Between two rows
// nothing is interpolated, and below the lowest there is no scaled score.
func (k *Key) scale(raw marks) *scaledScore {
	scoring := k.scoring
	var row *catalog.Conversion
	best := marks(0)
	for i, at := range k.conversion {
		if at <= raw && (row == nil || at >= best) {
			row, best = &scoring.Conversion[i], at
		}
	}
	if row == nil {
		return nil
	}
	scaled := &scaledScore{value: row.Scaled, min: row.Scaled, max: row.Scaled}
	for _, other := range scoring.Conversion {
		scaled.min, scaled.max = min(scaled.min, other.Scaled), max(scaled.max, other.Scaled)
	}
	if scoring.Scale != nil {
		scaled.min, scaled.max = scoring.Scale.Min, scoring.Scale.Max
	}
	holds := func(b catalog.Band) bool { return b.Min <= row.Scaled && row.Scaled <= b.Max }
	if i := slices.IndexFunc(scoring.Bands, holds); i >= 0 {
		scaled.label = scoring.Bands[i].Label
	}
	return scaled
}
