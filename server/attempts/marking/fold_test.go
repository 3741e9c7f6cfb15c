package marking

import (
	"testing"
	"unicode"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
)

func TestHowATextIsTypedDoesNotMatter(t *testing.T) {
	t.Parallel()
	for key, spellings := range map[string][]string{
		"don't": {
			"don\u2019t", "don\u2018t", "don\u02bct", "don\u00b4t", "don`t", "don\u2032t", "don\uff07t", "DON\u2019T",
			"do\u00adn't", "don'\u200bt", "\ufeffdon't",
		},
		`"Guernica"`: {
			"\u201cGuernica\u201d", "\u201eGuernica\u201c", "\u00abGuernica\u00bb", "\u300cGuernica\u300d", "\u2033Guernica\uff02",
		},
		"'x'": {"\u2039x\u203a", "\u201ax\u201b"},
		"1939-1945": {
			"1939\u20131945", "1939\u20141945", "1939\u22121945", "1939\u20101945",
			"1939\uff0d1945", "1939\u20111945",
		},
		"'n":               {"\u0149"},
		"a\u0323\u0301":    {"a\u0301\u200d\u0323", "\u1ea1\u0301"},
		"Jean\u2010Pierre": {"jean-pierre"},
	} {
		q := catalog.QuestionKey{Answer: catalog.Answer{Kind: catalog.AnswerText, Text: key}}
		for _, spelling := range append(spellings, key) {
			folded, problem := normalise(q, spelling)
			if problem != nil || folded != foldText(key) || !preparedOnly(q).isCorrect(folded) {
				t.Errorf("%+q is %+q, %v, where the key is %+q", spelling, folded, problem, key)
			}
			if asKey := foldText(spelling); asKey != foldText(key) {
				t.Errorf("the key %+q is %+q, and %+q is %+q", spelling, asKey, key, foldText(key))
			}
		}
	}
	q := catalog.QuestionKey{Answer: catalog.Answer{Kind: catalog.AnswerText, Text: "don't"}}
	for _, other := range []string{"dont", `don"t`, "don-t", "don t"} {
		if folded, _ := normalise(q, other); preparedOnly(q).isCorrect(folded) {
			t.Errorf("%q is right where the key is don't", other)
		}
	}
	if got, _ := normalise(q, "\u200b \u00ad"); got != "" {
		t.Errorf("format characters only are the answer %+q", got)
	}
}

func TestLettersLoseFormatCharacters(t *testing.T) {
	t.Parallel()
	paper := markingtest.EveryKind()
	for i, want := range map[int]string{0: "B", 1: "B", 4: "B"} {
		if got, problem := normalise(paper.Keys[i], "\u200eb\ufeff"); got != want || problem != nil {
			t.Errorf("question %d: %q, %v", i, got, problem)
		}
	}
}

func TestHowANumberIsTypedDoesNotMatter(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"\u22125": "-5", "\uff0d5": "-5", "\u20135": "-5", "\uff11\uff12\uff0e\uff15": "12.5", "\u0661\u0662\u066b\u0665": "12.5",
		"\u0967\u0968.\u096b": "12.5", "\u200f\u0661\u0662": "12", "1e\u22123": "0.001", "12\u066b5": "12.5",
		"\U0001d7cf\U0001d7d0": "12",
	} {
		if got, isNumber := foldNumber(given); got != want || !isNumber {
			t.Errorf("%+q is %q, a number: %v; want %q", given, got, isNumber, want)
		}
	}
}

// TestWhatIsNoNumberIsAWrongAnswer: it is stored as a folded text, and no part of it counts as a number.
func TestWhatIsNoNumberIsAWrongAnswer(t *testing.T) {
	t.Parallel()
	for _, number := range []float64{12.5, 12, 0.5, 16, 1000, 0} {
		q := catalog.QuestionKey{Answer: catalog.Answer{Kind: catalog.AnswerNumeric, Number: number, Tolerance: 1e-9}}
		for given, want := range map[string]string{
			"12,5": "12,5", "25/2": "25/2", "0x10": "0x10", "1_000": "1_000", "Inf": "inf", "+Inf": "+inf",
			"NaN": "nan", "1e999": "1e999", "1E9999": "1e9999",
			"12.5 M": "12.5 m", "12 %": "12 %", "\u22125\u00b0": "-5\u00b0", "Twelve": "twelve", "1\uff12": "1\uff12",
			"\u0661\u06f2": "\u0661\u06f2", "1e\u0663": "1e\u0663",
			"1,234.5": "1,234.5", "--5": "--5", "\u00bd": "\u00bd", "12\u066c500": "12\u066c500", ".": ".",
		} {
			got, problem := normalise(q, given)
			if problem != nil || got != want || preparedOnly(q).isCorrect(got) {
				t.Errorf("%+q is %+q, %v, right where the key is %v: %v; want %+q", given, got, problem, number, preparedOnly(q).isCorrect(got), want)
			}
		}
	}
}

func TestEachDigitIsCountedFromTheZeroOfItsSet(t *testing.T) {
	t.Parallel()
	sets := map[rune]int{}
	for r := range rune(unicode.MaxRune + 1) {
		if unicode.IsDigit(r) {
			sets[zeroOf(r)]++
		}
	}
	for zero, digits := range sets {
		if digits != 10 || !unicode.IsDigit(zero) || zeroOf(zero+9) != zero {
			t.Errorf("%U has %d digits", zero, digits)
		}
	}
}
