package attempts

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit"
)

func TestGrade(t *testing.T) {
	t.Parallel()
	third := catalog.Marking{Correct: 1, Incorrect: -0.333333}
	for _, c := range []struct {
		name    string
		answers []string
		change  func(*catalog.AnswerKey)
		raw     string
		max     string
		score   string
		counts  [4]int // correct, incorrect, unanswered, ungraded
	}{
		{"all right", []string{"B", "ACD", "12.5", "photo synthesis", "", ""}, nil, "15", "15", "100", [4]int{5, 0, 0, 1}},
		{"nothing answered: the annulled question counts", make([]string, 6), nil, "3", "15", "20", [4]int{1, 0, 4, 1}},
		{"all wrong: negative marks count, annulled and unmarkable answers do not", []string{"A", "A", "1", "x", "A", "x"}, nil, "-1", "15", "0", [4]int{1, 4, 0, 1}},
		{"within the tolerance", []string{"", "", "12.51", "", "", ""}, nil, "6", "15", "40", [4]int{2, 0, 3, 1}},
		{"beyond the tolerance", []string{"", "", "12.5100001", "", "", ""}, nil, "2", "15", "13.33", [4]int{1, 1, 3, 1}},
		{"marks for leaving blank", make([]string, 6), func(k *catalog.AnswerKey) { k.Marking.Unanswered = 0.5 }, "5", "15", "33.33", [4]int{1, 0, 4, 1}},
		{"thirds do not drift", []string{"A", "A", "1", "", "", ""}, func(k *catalog.AnswerKey) { k.Marking = third }, "0.000001", "5", "0", [4]int{1, 3, 1, 1}},
		{"all or nothing", []string{"", "AC", "", "", "", ""}, nil, "2", "15", "13.33", [4]int{1, 1, 3, 1}},
		{"partial credit", []string{"", "AC", "", "", "", ""}, partial, "5", "15", "33.33", [4]int{1, 1, 3, 1}},
		{"partial credit forgives no wrong letter", []string{"", "ABCD", "", "", "", ""}, partial, "2", "15", "13.33", [4]int{1, 1, 3, 1}},
		{"nothing can be marked", make([]string, 6), allUnmarkable, "0", "0", "0", [4]int{0, 0, 0, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := everyKind()
			if c.change != nil {
				c.change(&key)
			}
			got := prepared(&key).grade(c.answers)
			counts := [4]int{got.CorrectCount, got.IncorrectCount, got.UnansweredCount, got.UngradedCount}
			if got.RawScore.String() != c.raw || got.MaxScore.String() != c.max || got.Score.String() != c.score || counts != c.counts {
				t.Errorf("got raw %s of %s, score %s, counts %v; want %s of %s, %s, %v",
					got.RawScore, got.MaxScore, got.Score, counts, c.raw, c.max, c.score, c.counts)
			}
		})
	}
}

func partial(k *catalog.AnswerKey) { k.Scoring.PartialCredit = true }

func allUnmarkable(k *catalog.AnswerKey) {
	for i := range k.Keys {
		k.Keys[i].Answer = catalog.Answer{Kind: catalog.AnswerUnmarkable}
	}
}

func TestPassedNeedsTheScaleOfThePassMark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		passMark, outOf *float64
		raw, max        Marks
		want            *bool
	}{
		{"no pass mark", nil, new(80.0), 40, 80, nil},
		{"a pass mark out of nothing", new(40.0), nil, 40, 80, nil},
		{"nothing to earn", new(40.0), new(80.0), 0, 0, nil},
		{"exactly", new(40.0), new(80.0), 40, 80, new(true)},
		{"just below", new(40.000001), new(80.0), 40, 80, new(false)},
		{"a paper with dropped questions is scaled up", new(40.0), new(80.0), 38, 76, new(true)},
		{"below zero is zero", new(0.0), new(80.0), -3, 76, new(true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := passed(catalog.Scoring{PassMark: c.passMark, MaxScore: c.outOf}, c.raw*oneMark, c.max*oneMark)
			if (got == nil) != (c.want == nil) || (got != nil && *got != *c.want) {
				t.Errorf("got %v, want %v", show(got), show(c.want))
			}
		})
	}
}

func show(b *bool) string {
	if b == nil {
		return "nothing"
	}
	return strconv.FormatBool(*b)
}

func TestScaledIsTheHighestRowReached(t *testing.T) {
	t.Parallel()
	scoring := catalog.Scoring{
		Conversion: []catalog.Conversion{{Raw: 10, Scaled: 200}, {Raw: 30, Scaled: 400}, {Raw: 20, Scaled: 300}},
		Bands:      []catalog.Band{{Label: "low", Min: 0, Max: 299}, {Label: "high", Min: 300, Max: 400}},
	}
	for raw, want := range map[Marks]string{
		9: "null", -9: "null", 10: `{"value":200,"min":200,"max":400,"label":"low","basis":"official"}`,
		29: `{"value":300,"min":200,"max":400,"label":"high","basis":"official"}`,
		99: `{"value":400,"min":200,"max":400,"label":"high","basis":"official"}`,
	} {
		if got := toJSON(t, scale(scoring, raw*oneMark)); got != want {
			t.Errorf("raw %d: got %s, want %s", raw, got, want)
		}
	}
	if got := scale(catalog.Scoring{Bands: scoring.Bands}, 30*oneMark); got != nil {
		t.Errorf("without a conversion: got %s", toJSON(t, got))
	}
	scoring.Scale, scoring.Bands = &catalog.Scale{Min: 100, Max: 500}, nil
	if got, want := toJSON(t, scale(scoring, 20*oneMark)), `{"value":300,"min":100,"max":500,"label":null,"basis":"official"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheLabelIsThatOfTheFirstBandThatHoldsTheValue(t *testing.T) {
	t.Parallel()
	bands := []catalog.Band{{Label: "high", Min: 300, Max: 400}, {Label: "middle", Min: 200, Max: 300}, {Label: "low", Min: 0, Max: 150}}
	for value, want := range map[float64]*string{
		-1: nil, 0: new("low"), 150: new("low"), 175: nil, 200: new("middle"), 300: new("high"), 400: new("high"), 401: nil,
	} {
		scaled := scale(catalog.Scoring{Conversion: []catalog.Conversion{{Scaled: value}}, Bands: bands}, 0)
		if got := toJSON(t, orNull(scaled.Label)); got != toJSON(t, want) {
			t.Errorf("%v: got %s, want %s", value, got, toJSON(t, want))
		}
	}
}

func TestFeedbackOfAQuestion(t *testing.T) {
	t.Parallel()
	key := everyKind()
	got := prepared(&key).grade([]string{"A", "ACD", "", "photo synthesis", "B", "an essay"})
	for i, want := range []string{
		`{"answer_id":"1:1","question_number":1,"submitted":"A","correct_answer":"B","is_correct":false,"marks":-1,"max_marks":3,"explanation":"Because.","annulled":false}`,
		`{"answer_id":"1:2","question_number":2,"submitted":"ACD","correct_answer":"ACD","is_correct":true,"marks":3,"max_marks":3,"explanation":null,"annulled":false}`,
		`{"answer_id":"2:1","question_number":1,"submitted":null,"correct_answer":"12.5","is_correct":false,"marks":0,"max_marks":3,"explanation":null,"annulled":false}`,
		`{"answer_id":"2:3","question_number":3,"submitted":"photo synthesis","correct_answer":"Photo synthesis","is_correct":true,"marks":3,"max_marks":3,"explanation":null,"annulled":false}`,
		`{"answer_id":"2:4","question_number":4,"submitted":"B","correct_answer":null,"is_correct":true,"marks":3,"max_marks":3,"explanation":null,"annulled":true}`,
		`{"answer_id":"2:5","question_number":5,"submitted":"an essay","correct_answer":null,"is_correct":null,"marks":0,"max_marks":0,"explanation":null,"annulled":false}`,
	} {
		if have := toJSON(t, got.Questions[i]); have != want {
			t.Errorf("question %d:\n got %s\nwant %s", i, have, want)
		}
	}
	want := `[{"name":null,"raw_score":2,"max_score":6,"percentage":33.33},{"name":"Two","raw_score":6,"max_score":9,"percentage":66.67}]`
	if have := toJSON(t, got.Sections); have != want {
		t.Errorf("sections:\n got %s\nwant %s", have, want)
	}
}

func TestTheKeysTextIsFoldedAsAnswersAre(t *testing.T) {
	t.Parallel()
	for key, given := range map[string]string{
		"Photo  Synthesis": "photo synthesis", " photo\u00a0synthesis\t": "Photo Synthesis", "photo synthesis": "PHOTO\n SYNTHESIS",
		"Straße": "STRASSE", "strasse": "straße", "cr\u00e8me": "CRE\u0300ME", "cre\u0300me": "cr\u00e8me",
	} {
		q := catalog.QuestionKey{Answer: catalog.Answer{Kind: catalog.AnswerText, Text: key}}
		answer, problem := normalise(q, given)
		if problem != nil || !preparedOnly(q).isCorrect(answer) {
			t.Errorf("%q is not right where the key is %q: %v", given, key, problem)
		}
		if preparedOnly(q).isCorrect(answer + "s") {
			t.Errorf("%q with an s is right where the key is %q", given, key)
		}
	}
}

func TestFeedbackThatWasNotScoredShowsNothingOfTheKey(t *testing.T) {
	t.Parallel()
	got := toJSON(t, Feedback{Status: StateAbandoned})
	if want := `{"status":"abandoned","late":false,"started_at":"0001-01-01T00:00:00Z","submitted_at":"0001-01-01T00:00:00Z","duration_sec":0}`; got != want {
		t.Errorf("got %s", got)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text := testkit.Encode(t, v)
	return string(text)
}

func TestGradeAgreesWithANaiveComputation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := drawKey(t)
		answers := drawAnswers(t, key)
		got := prepared(&key).grade(answers)
		raw, maximum := naive(key, answers)
		if asRat(got.RawScore).Cmp(raw) != 0 || asRat(got.MaxScore).Cmp(maximum) != 0 {
			t.Fatalf("got %s of %s, want %s of %s", got.RawScore, got.MaxScore, raw, maximum)
		}
		if want := naivePercentage(raw, maximum); int64(got.Score) != want {
			t.Fatalf("got %d, want %d", got.Score, want)
		}
		var sections Marks
		for _, s := range got.Sections {
			sections += s.RawScore
		}
		if sections != got.RawScore {
			t.Fatalf("the sections add up to %s of %s", sections, got.RawScore)
		}
	})
}

func asRat(m Marks) *big.Rat { return big.NewRat(int64(m), int64(oneMark)) }

func naivePercentage(raw, maximum *big.Rat) int64 {
	if raw.Sign() <= 0 || maximum.Sign() <= 0 {
		return 0
	}
	return min(10000, halfUp(new(big.Rat).Mul(new(big.Rat).Quo(raw, maximum), big.NewRat(10000, 1))))
}

// naive scores by rationals and sets of letters, question by question, and shares no code with grade.
func naive(key catalog.AnswerKey, answers []string) (raw, maximum *big.Rat) {
	raw, maximum = new(big.Rat), new(big.Rat)
	for i, q := range key.Keys {
		if q.Answer.Kind != catalog.AnswerUnmarkable {
			earned, _ := naiveMarks(key, q.Answer, answers[i])
			raw.Add(raw, earned)
			maximum.Add(maximum, exact(key.Marking.Correct))
		}
	}
	return raw, maximum
}

// naiveMarks is what an answer to a question earns, and whether it is right.
func naiveMarks(key catalog.AnswerKey, wanted catalog.Answer, given string) (earned *big.Rat, isRight bool) {
	correct := exact(key.Marking.Correct)
	switch hits, misses := naiveHits(wanted, given); {
	case wanted.Kind == catalog.AnswerAnnulled, hits == naiveWanted(wanted) && misses == 0:
		return correct, true
	case given == "":
		return exact(key.Marking.Unanswered), false
	case wanted.Kind == catalog.AnswerChoices && key.Scoring.PartialCredit && misses == 0:
		millionths := halfUp(new(big.Rat).Mul(correct, big.NewRat(int64(hits)*int64(oneMark), int64(len(wanted.Choices)))))
		return big.NewRat(millionths, int64(oneMark)), false
	default:
		return exact(key.Marking.Incorrect), false
	}
}

func naiveWanted(answer catalog.Answer) int {
	if answer.Kind == catalog.AnswerChoices {
		return len(answer.Choices)
	}
	return 1
}

// naiveHits counts what is right and what is wrong in an answer.
func naiveHits(answer catalog.Answer, given string) (hits, misses int) {
	if given == "" {
		return 0, 0
	}
	isRight := false
	switch answer.Kind {
	case catalog.AnswerChoice, catalog.AnswerChoices:
		for letter := range strings.SplitSeq(given, "") {
			if slices.Contains(answer.Choices, letter) {
				hits++
			} else {
				misses++
			}
		}
		return hits, misses
	case catalog.AnswerNumeric:
		x, _ := new(big.Rat).SetString(given)
		low := new(big.Rat).Sub(exact(answer.Number), exact(answer.Tolerance))
		high := new(big.Rat).Add(exact(answer.Number), exact(answer.Tolerance))
		isRight = low.Cmp(x) <= 0 && x.Cmp(high) <= 0
	case catalog.AnswerText:
		isRight = strings.EqualFold(strings.Join(strings.Fields(answer.Text), " "), given)
	default:
	}
	if isRight {
		return 1, 0
	}
	return 0, 1
}

func exact(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'f', -1, 64))
	return r
}

// drawKey draws a paper of up to 30 questions of all kinds under any marking that has at most six decimals.
func drawKey(t *rapid.T) catalog.AnswerKey {
	millionths := func(label string, low int64) float64 {
		return float64(rapid.Int64Range(low, 10_000_000).Draw(t, label)) / 1e6
	}
	key := catalog.AnswerKey{Marking: catalog.Marking{
		Correct: millionths("correct", 1), Incorrect: millionths("incorrect", -10_000_000),
		Unanswered: millionths("unanswered", -1_000_000),
	}}
	key.Scoring.PartialCredit = rapid.Bool().Draw(t, "partial")
	for i := range rapid.IntRange(1, 30).Draw(t, "questions") {
		q := catalog.QuestionKey{Section: 1 + i%3, Number: i + 1}
		switch kind := rapid.SampledFrom([]catalog.AnswerKind{
			catalog.AnswerChoice, catalog.AnswerChoices, catalog.AnswerNumeric, catalog.AnswerText,
			catalog.AnswerAnnulled, catalog.AnswerUnmarkable,
		}).Draw(t, "kind"); kind {
		case catalog.AnswerChoice:
			q.Letters = abcd
			q.Answer = catalog.Answer{Kind: kind, Choices: []string{rapid.SampledFrom(abcd).Draw(t, "right")}}
		case catalog.AnswerChoices:
			q.Letters = abcd
			right := rapid.SliceOfNDistinct(rapid.SampledFrom(abcd), 1, 4, rapid.ID).Draw(t, "right")
			slices.Sort(right)
			q.Answer = catalog.Answer{Kind: kind, Choices: right}
		case catalog.AnswerNumeric:
			q.Answer = catalog.Answer{
				Kind: kind, Number: float64(rapid.IntRange(-99_999, 99_999).Draw(t, "number")) / 1000,
				Tolerance: float64(rapid.IntRange(0, 99_999).Draw(t, "tolerance")) / 1000,
			}
		case catalog.AnswerText:
			q.Answer = catalog.Answer{Kind: kind, Text: rapid.StringMatching(`[a-c]{1,2} ?[A-C]`).Draw(t, "text")}
		default:
			q.Answer = catalog.Answer{Kind: kind}
		}
		key.Keys = append(key.Keys, q)
	}
	return key
}
