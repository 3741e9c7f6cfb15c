package marking

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit/check"
)

func TestAnswersAreNormalisedByKind(t *testing.T) {
	t.Parallel()
	paper := markingtest.EveryKind()
	choice, choices, numeric, text, annulled, unmarkable := paper.Keys[0], paper.Keys[1], paper.Keys[2], paper.Keys[3],
		paper.Keys[4], paper.Keys[5]
	for _, c := range []struct {
		name  string
		q     catalog.QuestionKey
		given string
		want  string
	}{
		{"a letter", choice, "B", "B"},
		{"a letter in lower case, with spaces", choice, " b\t", "B"},
		{"blank is unanswered", choice, " \n ", ""},
		{"letters in any order", choices, "DCA", "ACD"},
		{"letters with commas and spaces", choices, "d, a,c", "ACD"},
		{"a letter twice counts once", choices, "AAc", "AC"},
		{"a number", numeric, "12.50", "12.5"},
		{"a number with sign and zeros", numeric, "+0012.", "12"},
		{"a number without whole part", numeric, "-.5", "-0.5"},
		{"minus zero", numeric, "-0.0", "0"},
		{"an exponent", numeric, "1.25E+1", "12.5"},
		{"a large number keeps its exponent", numeric, "3e20", "3e+20"},
		{"text folds case and spaces", text, "  PHOTO \u00a0 Synthesis ", "photo synthesis"},
		{"text folds sharp s", text, "STRASSE", foldText("Straße")},
		{"text ignores how an accent is typed", text, "e\u0301", foldText("\u00e9")},
		{"control characters are spaces", text, "a\x00b", "a b"},
		{"what is not UTF-8 is replaced", text, "a\xff", "a\ufffd"},
		{"letters of an annulled question", annulled, "d a", "AD"},
		{"free text keeps its case", unmarkable, " An  Essay ", "An Essay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problem := normalise(c.q, c.given)
			if problem != nil || got != c.want {
				t.Errorf("%q: got %q, %v, want %q", c.given, got, problem, c.want)
			}
		})
	}
}

func TestAnAnswerThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	paper := markingtest.EveryKind()
	for _, c := range []struct {
		name  string
		q     catalog.QuestionKey
		given string
	}{
		{"a letter that is not offered", paper.Keys[0], "E"},
		{"two letters where one is asked for", paper.Keys[0], "AB"},
		{"one of several letters is not offered", paper.Keys[1], "ABX"},
		{"only separators", paper.Keys[1], ", ,"},
		{"too long", paper.Keys[3], strings.Repeat("x", maxAnswer+1)},
		{"a letter that an annulled question never had", paper.Keys[4], "Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problem := normalise(c.q, c.given)
			if problem == nil || problem.code != CodeInvalidOption {
				t.Errorf("%q: got %q, %v, want %s", c.given, got, problem, CodeInvalidOption)
			}
		})
	}
}

func TestKeysOfAnswers(t *testing.T) {
	t.Parallel()
	key := markingtest.EveryKind()
	for _, c := range []struct {
		name  string
		given []Answer
		// code is "" where the answers are accepted.
		code   string
		fields []string
		detail string
	}{
		{"answer ids", []Answer{{"1:1", "A"}, {"2:1", "1"}}, "", nil, ""},
		{"a plain number of one section", []Answer{{"2", "AC"}, {"3", "x"}}, "", nil, ""},
		{"none at all", nil, "", nil, ""},
		{"a plain number of two sections", []Answer{{"1", "A"}}, CodeAmbiguousKey, []string{"answers.1"}, "1:1, 2:1"},
		{"no such number", []Answer{{"9", "A"}}, CodeUnknownAnswerID, []string{"answers.9"}, ""},
		{"no such section", []Answer{{"3:1", "A"}}, CodeUnknownAnswerID, []string{"answers.3:1"}, ""},
		{"a number with a zero before it", []Answer{{"02", "A"}}, CodeUnknownAnswerID, []string{"answers.02"}, ""},
		{"an empty key", []Answer{{"", "A"}}, CodeUnknownAnswerID, []string{"answers."}, ""},
		{"both forms of one question", []Answer{{"2", "A"}, {"1:2", "A"}}, CodeDuplicateKey, []string{"answers.1:2"}, `"2"`},
		{"the same key twice, once blank", []Answer{{"1:1", ""}, {"1:1", "A"}}, CodeDuplicateKey, []string{"answers.1:1"}, ""},
		{
			"the first mistake gives the code, all are listed",
			[]Answer{{"1:1", "Z"}, {"7:7", "A"}, {"2", "x"}},
			CodeInvalidOption,
			[]string{"answers.1:1", "answers.7:7", "answers.2"},
			`"Z"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := prepared(&key).Read(c.given)
			if c.code == "" {
				check.NoError(t, err)
				return
			}
			var refused *Error
			if !errors.As(err, &refused) || refused.Code != c.code {
				t.Fatalf("got %v, want %s", err, c.code)
			}
			var fields []string
			for _, f := range refused.Fields {
				fields = append(fields, f.Field)
			}
			if !slices.Equal(fields, c.fields) || !strings.Contains(refused.Detail, c.detail) {
				t.Errorf("got fields %q and detail %q, want %q and %q in it", fields, refused.Detail, c.fields, c.detail)
			}
		})
	}
}

func TestAFloodOfMistakesIsCutShort(t *testing.T) {
	t.Parallel()
	key := markingtest.EveryKind()
	given := make([]Answer, 10*maxProblems)
	for i := range given {
		given[i] = Answer{Key: "no", Value: "A"}
	}
	_, err := prepared(&key).Read(given)
	var refused *Error
	if !errors.As(err, &refused) || len(refused.Fields) != maxProblems {
		t.Fatalf("got %v", err)
	}
}

func prepared(key *catalog.AnswerKey) *Key {
	k, _ := Prepare(key)
	return k
}

// preparedOnly prepares one question.
func preparedOnly(q catalog.QuestionKey) *question {
	return &prepared(&catalog.AnswerKey{Keys: []catalog.QuestionKey{q}}).questions[0]
}

func normalise(q catalog.QuestionKey, value string) (string, *answerError) {
	return preparedOnly(q).normalise(value)
}

// drawAnswers draws normalised answers, right, wrong and blank ones.
func drawAnswers(t *rapid.T, key catalog.AnswerKey) []string {
	answers := make([]string, len(key.Keys))
	for i, q := range key.Keys {
		var problem *answerError
		answers[i], problem = normalise(q, drawAnswer(t, q))
		if problem != nil {
			t.Fatal(problem)
		}
	}
	return answers
}

// drawAnswer draws what a client may send to a question.
func drawAnswer(t *rapid.T, q catalog.QuestionKey) string {
	blankOr := func(g *rapid.Generator[string]) string {
		return rapid.OneOf(rapid.Just(""), rapid.Just(correctAnswer(q)), g).Draw(t, "answer")
	}
	switch {
	case q.Answer.Kind == catalog.AnswerChoice:
		return blankOr(rapid.SampledFrom(q.Letters))
	case len(q.Letters) > 0:
		return blankOr(rapid.Map(rapid.SliceOfN(rapid.SampledFrom(q.Letters), 1, 6), func(letters []string) string {
			return strings.Join(letters, "")
		}))
	case q.Answer.Kind == catalog.AnswerNumeric:
		return blankOr(rapid.StringMatching(`-?[0-9]{1,3}(\.[0-9]{1,3})?`))
	default:
		return blankOr(rapid.StringMatching(`[ a-cA-CéÉ]{0,6}`))
	}
}

// FuzzNormalise: whatever a client sends, the normal form is stable, valid UTF-8 and free of what Postgres refuses.
func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"B", "c,a", "12.50", "-.5e3", " Straße ", "e\u0301\u0345", "\x00", "\xff", "ﬁ İ ς", "ͅᾼ", "ŉ«‹„", "–5", "١٢٫٥", "１２．５", "1２", "1/3", "a\u0301\u200d\u0323", "1e9999"} {
		f.Add(seed)
	}
	paper := markingtest.EveryKind()
	f.Fuzz(func(t *testing.T, given string) {
		for _, q := range paper.Keys {
			once, problem := normalise(q, given)
			if problem != nil {
				continue
			}
			if !utf8.ValidString(once) || strings.ContainsRune(once, 0) {
				t.Fatalf("%s: %q became %q", q.Answer.Kind, given, once)
			}
			if utf8.RuneCountInString(once) > maxAnswer {
				continue // folding made it longer than an answer may be; it is stored, never read again as input
			}
			twice, problem := normalise(q, once)
			if problem != nil || twice != once {
				t.Fatalf("%s: %q became %q, then %q, %v", q.Answer.Kind, given, once, twice, problem)
			}
		}
	})
}

// FuzzReadAnswers: no key and no value makes reading a submission fail in another way than with an *Error.
func FuzzReadAnswers(f *testing.F) {
	f.Add("1:1", "A", "2", "AC")
	f.Add("1", "A", "1:1", "")
	paper := markingtest.EveryKind()
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		key := prepared(&paper)
		answers, err := key.Read([]Answer{{key1, value1}, {key2, value2}})
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || len(refused.Fields) == 0 {
				t.Fatal(err)
			}
			return
		}
		outcome := key.Grade(answers)
		if total := outcome.correct + outcome.incorrect + outcome.unanswered + outcome.ungraded; total != len(paper.Keys) {
			t.Fatalf("the counts add up to %d", total)
		}
	})
}
