package attempts

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
)

// expectedFeedback returns the feedback on a submission (docs/spec.md, part 2), every field of it, as a JSON object.
func (m *modelAttempt) expectedFeedback(late bool) map[string]any {
	feedback := map[string]any{
		"status": m.state, "late": late, "started_at": m.opened, "submitted_at": m.first.at,
		"duration_sec": int64(m.first.at.Sub(m.opened) / time.Second),
	}
	if late {
		feedback["overtime_sec"] = int64(m.first.at.Sub(*m.deadline) / time.Second)
	}
	if m.state == StateAbandoned {
		return feedback
	}
	key := m.edition.key
	counts := map[string]int{}
	var questions []any
	var sections []*modelSection
	for i, q := range key.Keys {
		question, earned, outOf := expectedQuestion(*key, i, m.first.answers[i])
		isRight, _ := question["is_correct"].(bool)
		questions = append(questions, question)
		if len(sections) == 0 || sections[len(sections)-1].number != q.Section {
			sections = append(sections, &modelSection{q.Section, q.SectionName, new(big.Rat), new(big.Rat)})
		}
		section := sections[len(sections)-1]
		section.raw.Add(section.raw, earned)
		section.outOf.Add(section.outOf, outOf)
		switch {
		case q.Answer.Kind == catalog.AnswerUnmarkable:
			counts["ungraded"]++
		case isRight:
			counts["correct"]++
		case m.first.answers[i] == "":
			counts["unanswered"]++
		default:
			counts["incorrect"]++
		}
	}
	feedback["questions"] = questions
	for _, outcome := range []string{"correct", "incorrect", "unanswered", "ungraded"} {
		feedback[outcome+"_count"] = counts[outcome]
	}
	raw, outOf := markingtest.Naive(*key, m.first.answers)
	if outOf.Sign() == 0 { // essays only: no score
		return feedback
	}
	percentage := json.RawMessage(marking.Percentage(markingtest.NaivePercentage(raw, outOf)).String())
	feedback["score"], feedback["percentage"] = percentage, percentage
	feedback["raw_score"], feedback["max_score"] = markingtest.Decimal(raw), markingtest.Decimal(outOf)
	results := []any{}
	for _, section := range sections {
		results = append(results, section.result())
	}
	feedback["sections"] = results
	expectVerdicts(feedback, key.Scoring, raw, outOf)
	return feedback
}

// modelSection is a section's marks.
type modelSection struct {
	number     int
	name       string
	raw, outOf *big.Rat
}

func (s *modelSection) result() map[string]any {
	return present(map[string]any{
		"name": s.name, "raw_score": markingtest.Decimal(s.raw), "max_score": markingtest.Decimal(s.outOf),
		"percentage": json.RawMessage(marking.Percentage(markingtest.NaivePercentage(s.raw, s.outOf)).String()),
	})
}

// present returns the members that a response has: a field without a value is absent.
func present(object map[string]any) map[string]any {
	maps.DeleteFunc(object, func(_ string, value any) bool { return value == nil || value == "" })
	return object
}

func expectedQuestion(key catalog.AnswerKey, i int, given string) (question map[string]any, earned, outOf *big.Rat) {
	q := key.Keys[i]
	question = map[string]any{
		"answer_id": markingtest.AnswerName(q), "question_number": q.Number, "submitted": given,
		"correct_answer": nil, "explanation": q.Explanation, "annulled": q.Answer.Kind == catalog.AnswerAnnulled,
	}
	switch q.Answer.Kind {
	case catalog.AnswerChoice, catalog.AnswerChoices:
		question["correct_answer"] = strings.Join(q.Answer.Choices, "")
	case catalog.AnswerNumeric:
		question["correct_answer"] = decimalOfNumber(q.Answer.Number)
	case catalog.AnswerText:
		question["correct_answer"] = q.Answer.Text
	default:
	}
	earned, outOf = new(big.Rat), new(big.Rat)
	question["is_correct"] = nil
	if q.Answer.Kind != catalog.AnswerUnmarkable {
		earned, question["is_correct"] = markingtest.NaiveMarks(key, q.Answer, given)
		outOf = markingtest.Exact(key.Marking.Correct)
	}
	question["marks"], question["max_marks"] = markingtest.Decimal(earned), markingtest.Decimal(outOf)
	return present(question), earned, outOf
}

// expectVerdicts adds what only some exams' scoring allows to say.
func expectVerdicts(feedback map[string]any, scoring catalog.Scoring, raw, outOf *big.Rat) {
	floored := raw
	if floored.Sign() < 0 {
		floored = new(big.Rat)
	}
	if scoring.PassMark != nil && outOf.Sign() > 0 {
		have := new(big.Rat).Mul(new(big.Rat).Quo(floored, outOf), markingtest.Exact(*scoring.MaxScore))
		feedback["passed"] = have.Cmp(markingtest.Exact(*scoring.PassMark)) >= 0
	}
	for _, row := range slices.Backward(scoring.Conversion) { // the table is sorted
		if raw.Cmp(markingtest.Exact(row.Raw)) < 0 {
			continue
		}
		least, most := scoring.Conversion[0].Scaled, scoring.Conversion[len(scoring.Conversion)-1].Scaled
		if scoring.Scale != nil {
			least, most = scoring.Scale.Min, scoring.Scale.Max
		}
		scaled := map[string]any{"value": row.Scaled, "min": least, "max": most, "label": nil, "basis": "official"}
		for _, band := range scoring.Bands {
			if band.Min <= row.Scaled && row.Scaled <= band.Max {
				scaled["label"] = band.Label
			}
		}
		feedback["scaled"] = present(scaled)
		return
	}
}

func decimalOfNumber(x float64) string { return string(markingtest.Decimal(markingtest.Exact(x))) }

// mustEqualJSON compares two documents member by member, and their numbers as written.
func mustEqualJSON(t *rapid.T, given string, expected any) {
	t.Helper()
	if got, want := inOrder(t, given), inOrder(t, mustJSON(t, expected)); got != want {
		t.Fatalf("\n got %s\nwant %s", got, want)
	}
}

// inOrder writes a JSON document with its members sorted.
func inOrder(t *rapid.T, document string) string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader([]byte(document)))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		t.Fatal(err)
	}
	return mustJSON(t, parsed)
}

// sawFeedback counts what the feedback says.
func (w *world) sawFeedback(key *catalog.AnswerKey, feedback map[string]any) {
	passed, decided := feedback["passed"].(bool)
	w.sawIf(decided && passed, "feedback: passed")
	w.sawIf(decided && !passed, "feedback: failed")
	w.sawIf(feedback["scaled"] != nil, "feedback: scaled")
	w.sawIf(feedback["scaled"] == nil && len(key.Scoring.Conversion) > 0, "feedback: below the conversion")
	raw, _ := feedback["raw_score"].(json.RawMessage)
	w.sawIf(bytes.HasPrefix(raw, []byte("-")), "feedback: below zero")
	questions, _ := feedback["questions"].([]any)
	for i, q := range questions {
		question, _ := q.(map[string]any)
		marks, _ := question["marks"].(json.RawMessage)
		isRight, _ := question["is_correct"].(bool)
		partly := key.Keys[i].Answer.Kind == catalog.AnswerChoices && !isRight && question["submitted"] != nil &&
			len(marks) > 0 && marks[0] != '-' && string(marks) != "0"
		w.sawIf(partly, "feedback: partial credit")
	}
}
