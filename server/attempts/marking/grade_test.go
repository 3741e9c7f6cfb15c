package marking

import (
	"math/big"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
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
			key := markingtest.EveryKind()
			if c.change != nil {
				c.change(&key)
			}
			got := prepared(&key).Grade(c.answers)
			counts := [4]int{got.correct, got.incorrect, got.unanswered, got.ungraded}
			if got.raw.String() != c.raw || got.max.String() != c.max || got.Score.String() != c.score || counts != c.counts {
				t.Errorf("got raw %s of %s, score %s, counts %v; want %s of %s, %s, %v",
					got.raw, got.max, got.Score, counts, c.raw, c.max, c.score, c.counts)
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
		raw, max        marks
		want            *bool
	}{
		{"no pass mark", nil, new(80.0), 40, 80, nil},
		{"a pass mark out of nothing", new(40.0), nil, 40, 80, nil},
		{"nothing to earn", new(40.0), new(80.0), 0, 0, nil},
		{"exactly", new(40.0), new(80.0), 40, 80, new(true)},
		{"just below", new(40.000001), new(80.0), 40, 80, new(false)},
		{"a paper with dropped questions is scaled up", new(40.0), new(80.0), 38, 76, new(true)},
		{"below zero is zero", new(0.0), new(80.0), -3, 76, new(true)},
		{"a scale of millions, above", new(1e6), new(2e6), 3, 4, new(true)},
		{"a scale of millions, exactly", new(1e6), new(2e6), 2, 4, new(true)},
		{"a scale of millions, below", new(1e6), new(2e6), 1, 4, new(false)},
		{"a scale of millionths of millionths, below", new(5e-13), new(1e-12), 1, 4, new(false)},
		{"a pass mark beyond all marks", new(1e308), new(5e-324), 4, 4, new(false)},
		{"a pass mark below all marks", new(-1e308), new(5e-324), 0, 4, new(true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := scoringKey(catalog.Scoring{PassMark: c.passMark, MaxScore: c.outOf}, c.max*oneMark).passed(c.raw * oneMark)
			if (got == nil) != (c.want == nil) || (got != nil && *got != *c.want) {
				t.Errorf("got %v, want %v", show(got), show(c.want))
			}
		})
	}
}

// scoringKey returns a key of a paper with that many marks.
func scoringKey(scoring catalog.Scoring, maximum marks) *Key {
	key := new(Key)
	key.setScoring(scoring, maximum)
	return key
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
	for raw, want := range map[marks]string{
		9: "null", -9: "null", 10: `{"value":200,"min":200,"max":400,"label":"low","basis":"official"}`,
		29: `{"value":300,"min":200,"max":400,"label":"high","basis":"official"}`,
		99: `{"value":400,"min":200,"max":400,"label":"high","basis":"official"}`,
	} {
		if got := toJSON(t, scoringKey(scoring, 0).scale(raw*oneMark)); got != want {
			t.Errorf("raw %d: got %s, want %s", raw, got, want)
		}
	}
	if got := scoringKey(catalog.Scoring{Bands: scoring.Bands}, 0).scale(30 * oneMark); got != nil {
		t.Errorf("without a conversion: got %s", toJSON(t, got))
	}
	scoring.Scale, scoring.Bands = &catalog.Scale{Min: 100, Max: 500}, nil
	if got, want := toJSON(t, scoringKey(scoring, 0).scale(20*oneMark)), `{"value":300,"min":100,"max":500,"basis":"official"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestConversionBeyondAMillion(t *testing.T) {
	t.Parallel()
	key := scoringKey(catalog.Scoring{Conversion: []catalog.Conversion{{Raw: 0, Scaled: 1}, {Raw: 2e6, Scaled: 2}, {Raw: 1e300, Scaled: 3}}}, 0)
	for raw, want := range map[marks]float64{1_000_000: 1, 1_999_999: 1, 2_000_000: 2, 10_000_000: 2} {
		if got := key.scale(raw * oneMark); got == nil || got.value != want {
			t.Errorf("raw %d: got %s, want %v", raw, toJSON(t, got), want)
		}
	}
}

func TestTheLabelIsThatOfTheFirstBandThatHoldsTheValue(t *testing.T) {
	t.Parallel()
	bands := []catalog.Band{{Label: "high", Min: 300, Max: 400}, {Label: "middle", Min: 200, Max: 300}, {Label: "low", Min: 0, Max: 150}}
	for value, want := range map[float64]string{
		-1: "", 0: "low", 150: "low", 175: "", 200: "middle", 300: "high", 400: "high", 401: "",
	} {
		scaled := scoringKey(catalog.Scoring{Conversion: []catalog.Conversion{{Scaled: value}}, Bands: bands}, 0).scale(0)
		check.Equal(t, scaled.label, want, "%v: label", value)
	}
}

func TestFeedbackOfAQuestion(t *testing.T) {
	t.Parallel()
	key := markingtest.EveryKind()
	got := prepared(&key).Grade([]string{"A", "ACD", "", "photo synthesis", "B", "an essay"})
	for i, want := range []string{
		`{"answer_id":"1:1","question_number":1,"submitted":"A","correct_answer":"B","is_correct":false,"marks":-1,"max_marks":3,"explanation":"Because.","annulled":false}`,
		`{"answer_id":"1:2","question_number":2,"submitted":"ACD","correct_answer":"ACD","is_correct":true,"marks":3,"max_marks":3,"annulled":false}`,
		`{"answer_id":"2:1","question_number":1,"correct_answer":"12.5","is_correct":false,"marks":0,"max_marks":3,"annulled":false}`,
		`{"answer_id":"2:3","question_number":3,"submitted":"photo synthesis","correct_answer":"Photo synthesis","is_correct":true,"marks":3,"max_marks":3,"annulled":false}`,
		`{"answer_id":"2:4","question_number":4,"submitted":"B","is_correct":true,"marks":3,"max_marks":3,"annulled":true}`,
		`{"answer_id":"2:5","question_number":5,"submitted":"an essay","marks":0,"max_marks":0,"annulled":false}`,
	} {
		if have := toJSON(t, got.questions[i]); have != want {
			t.Errorf("question %d:\n got %s\nwant %s", i, have, want)
		}
	}
	want := `[{"raw_score":2,"max_score":6,"percentage":33.33},{"name":"Two","raw_score":6,"max_score":9,"percentage":66.67}]`
	if have := toJSON(t, got.sections); have != want {
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
	got := toJSON(t, Feedback{Status: "abandoned"})
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
		got := prepared(&key).Grade(answers)
		raw, maximum := markingtest.Naive(key, answers)
		if asRat(got.raw).Cmp(raw) != 0 || asRat(got.max).Cmp(maximum) != 0 {
			t.Fatalf("got %s of %s, want %s of %s", got.raw, got.max, raw, maximum)
		}
		if want := markingtest.NaivePercentage(raw, maximum); int64(got.Score) != want {
			t.Fatalf("got %d, want %d", got.Score, want)
		}
		var sections marks
		for _, s := range got.sections {
			sections += s.raw
		}
		if sections != got.raw {
			t.Fatalf("the sections add up to %s of %s", sections, got.raw)
		}
	})
}

func asRat(m marks) *big.Rat { return big.NewRat(int64(m), int64(oneMark)) }

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
			q.Letters = markingtest.Letters()
			q.Answer = catalog.Answer{Kind: kind, Choices: []string{rapid.SampledFrom(markingtest.Letters()).Draw(t, "right")}}
		case catalog.AnswerChoices:
			q.Letters = markingtest.Letters()
			right := rapid.SliceOfNDistinct(rapid.SampledFrom(markingtest.Letters()), 1, 4, rapid.ID).Draw(t, "right")
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
