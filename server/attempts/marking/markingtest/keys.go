package markingtest

import (
	"strconv"

	"examprep.dev/server/catalog"
)

// Letters returns the letters of the options of all questions that have any.
func Letters() []string { return []string{"A", "B", "C", "D"} }

// EveryKind returns a paper with one question of each kind, in two sections that share the number 1.
func EveryKind() catalog.AnswerKey {
	return catalog.AnswerKey{
		Marking: catalog.Marking{Correct: 3, Incorrect: -1},
		Keys: []catalog.QuestionKey{
			{Section: 1, Number: 1, Letters: Letters(), Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{"B"}}, Explanation: "Because."},
			{Section: 1, Number: 2, Letters: Letters(), Answer: catalog.Answer{Kind: catalog.AnswerChoices, Choices: []string{"A", "C", "D"}}},
			{Section: 2, SectionName: "Two", Number: 1, Answer: catalog.Answer{Kind: catalog.AnswerNumeric, Number: 12.5, Tolerance: 0.01}},
			{Section: 2, SectionName: "Two", Number: 3, Answer: catalog.Answer{Kind: catalog.AnswerText, Text: "Photo synthesis"}},
			{Section: 2, SectionName: "Two", Number: 4, Letters: Letters(), Answer: catalog.Answer{Kind: catalog.AnswerAnnulled}},
			{Section: 2, SectionName: "Two", Number: 5, Answer: catalog.Answer{Kind: catalog.AnswerUnmarkable}},
		},
	}
}

// EveryVerdict returns scoring rules of a paper under which a result has every optional member.
func EveryVerdict(questions int) catalog.Scoring {
	half, full := float64(questions)/2, float64(questions)
	return catalog.Scoring{
		PartialCredit: true, PassMark: &half, MaxScore: &full,
		Conversion: []catalog.Conversion{{Raw: -5, Scaled: 100.5}, {Raw: half, Scaled: 1e21}, {Raw: full, Scaled: 1e22}},
		Bands:      []catalog.Band{{Label: "<low> & \u00e9", Min: 0, Max: 200}, {Label: "high", Min: 1e20, Max: 1e23}},
	}
}

// AnswerName returns the answer_id of a question.
func AnswerName(q catalog.QuestionKey) string {
	return strconv.Itoa(q.Section) + ":" + strconv.Itoa(q.Number)
}
