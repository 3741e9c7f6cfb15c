package attempts

import (
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
)

// A modelSheet is a submission's answers with what they mean, known from how they were made up.
type modelSheet struct {
	given []marking.Answer
	// meant is each question's answer in its normal form, in paper order; "" is unanswered.
	meant []string
	// mistake is the code that the answers are refused with, "" when they are good; at names the key to blame.
	mistake, at string
	// plain and blank tell that a plain question number, and a blank answer, were among them.
	plain, blank bool
}

// drawSheet draws answers to some of the questions, seldom with a mistake among them.
func drawSheet(t *rapid.T, key *catalog.AnswerKey) modelSheet {
	meant := make([]string, len(key.Keys))
	var sheet modelSheet
	blank := seldom(t, "no answers")
	for i, q := range key.Keys {
		if !blank && !seldom(t, "unanswered") {
			meant[i] = drawMeant(t, q)
			sheet.add(t, key, i, meant[i])
		}
	}
	sheet.meant = meant
	if rapid.Bool().Draw(t, "backwards") {
		slices.Reverse(sheet.given)
	}
	if seldom(t, "mistake") {
		sheet.spoil(t, key)
	}
	return sheet
}

// respell draws the same answers in other words.
func respell(t *rapid.T, key *catalog.AnswerKey, meant []string) modelSheet {
	sheet := modelSheet{meant: meant}
	for i := range key.Keys {
		if meant[i] != "" || rapid.Bool().Draw(t, "blank") {
			sheet.add(t, key, i, meant[i])
		}
	}
	slices.Reverse(sheet.given)
	return sheet
}

func (s *modelSheet) add(t *rapid.T, key *catalog.AnswerKey, i int, meant string) {
	name := markingtest.AnswerName(key.Keys[i])
	if len(namesakes(key, key.Keys[i].Number)) == 1 && rapid.Bool().Draw(t, "plain") {
		name = strconv.Itoa(key.Keys[i].Number)
		s.plain = true
	}
	s.blank = s.blank || meant == ""
	s.given = append(s.given, marking.Answer{Key: name, Value: spell(t, key.Keys[i], meant)})
}

// namesakes are the questions that bear a number, whatever their section.
func namesakes(key *catalog.AnswerKey, number int) (positions []int) {
	for i, q := range key.Keys {
		if q.Number == number {
			positions = append(positions, i)
		}
	}
	return positions
}

// spoil puts one mistake before or behind the answers.
func (s *modelSheet) spoil(t *rapid.T, key *catalog.AnswerKey) {
	bad := marking.Answer{Key: rapid.SampledFrom([]string{"9:9", "3:1", "99", "01", "1:01", "", "1:", "A", " 1:1"}).Draw(t, "no question"), Value: "A"}
	s.mistake = marking.CodeUnknownAnswerID
	kind := rapid.SampledFrom([]string{marking.CodeUnknownAnswerID, marking.CodeInvalidOption, marking.CodeAmbiguousKey, marking.CodeDuplicateKey}).Draw(t, "kind")
	at := rapid.IntRange(0, len(key.Keys)-1).Draw(t, "question")
	q := key.Keys[at]
	switch {
	case kind == marking.CodeInvalidOption:
		s.drop(key, at) // it would be the second answer to the question else
		s.mistake, bad = kind, marking.Answer{Key: markingtest.AnswerName(q), Value: drawImpossible(t, q)}
	case kind == marking.CodeAmbiguousKey && len(namesakes(key, 1)) > 1:
		s.mistake, bad = kind, marking.Answer{Key: "1", Value: "A"}
	case kind == marking.CodeDuplicateKey && s.answers(key, at):
		s.mistake, bad = kind, marking.Answer{Key: markingtest.AnswerName(q), Value: ""}
		if len(namesakes(key, q.Number)) == 1 && rapid.Bool().Draw(t, "plain") {
			bad.Key = strconv.Itoa(q.Number)
		}
	}
	s.at = bad.Key
	if s.mistake != marking.CodeDuplicateKey && rapid.Bool().Draw(t, "first") {
		s.given = slices.Insert(s.given, 0, bad)
		return
	}
	s.given = append(s.given, bad)
}

func (s *modelSheet) isFor(key *catalog.AnswerKey, at int) func(marking.Answer) bool {
	q := key.Keys[at]
	return func(a marking.Answer) bool {
		return a.Key == markingtest.AnswerName(q) || (a.Key == strconv.Itoa(q.Number) && len(namesakes(key, q.Number)) == 1)
	}
}

func (s *modelSheet) answers(key *catalog.AnswerKey, at int) bool {
	return slices.ContainsFunc(s.given, s.isFor(key, at))
}

func (s *modelSheet) drop(key *catalog.AnswerKey, at int) {
	s.given = slices.DeleteFunc(s.given, s.isFor(key, at))
}

// drawMeant draws an answer in its normal form: right, wrong, partly right, or none.
func drawMeant(t *rapid.T, q catalog.QuestionKey) string {
	letters := func(least, most int) string {
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(markingtest.Letters()), least, most, rapid.ID).Draw(t, "letters")
		slices.Sort(chosen)
		return strings.Join(chosen, "")
	}
	switch q.Answer.Kind {
	case catalog.AnswerChoice:
		return letters(0, 1)
	case catalog.AnswerChoices, catalog.AnswerAnnulled:
		return letters(0, 4)
	case catalog.AnswerNumeric:
		return rapid.SampledFrom([]string{"", "12.5", "12.49", "12.51", "12.5100001", "-12.5", "0", "7", "3e+20", "12,5", "25/2", "12.5 m", "nan", "1e999"}).Draw(t, "number")
	case catalog.AnswerText: // in lower case, one space between words, accents taken apart
		return rapid.SampledFrom([]string{"", "photo synthesis", "photosynthesis", "cre\u0300me bru\u0302le\u0301e", "strasse", "don't-\"x\""}).Draw(t, "text")
	default:
		return rapid.SampledFrom([]string{"", "An essay", "ß ∑"}).Draw(t, "essay")
	}
}

// spell writes an answer as one of the clients may.
func spell(t *rapid.T, q catalog.QuestionKey, meant string) string {
	around := rapid.SampledFrom([]string{"", "", " ", "\t \n"}).Draw(t, "around")
	if meant == "" {
		return around
	}
	styles := map[catalog.AnswerKind][]func(string) string{
		catalog.AnswerChoice: {strings.ToLower},
		catalog.AnswerNumeric: {func(s string) string {
			if strings.Contains(s, ".") && isNumber(s) {
				return s + "00"
			}
			return s
		}, func(s string) string {
			if !isNumber(s) {
				return s
			}
			return strings.Map(func(r rune) rune {
				switch {
				case r == '-':
					return '\u2212'
				case r == '.':
					return '\u066b'
				case '0' <= r && r <= '9':
					return '\u0660' + r - '0'
				}
				return r
			}, s)
		}, func(s string) string {
			if strings.HasPrefix(s, "-") || strings.Contains(s, "e") || !isNumber(s) {
				return s
			}
			return "+00" + s + "E0"
		}},
		catalog.AnswerText: {strings.ToUpper, func(s string) string { return strings.ReplaceAll(s, " ", " \u00a0\t") }, func(s string) string {
			return strings.NewReplacer("e\u0300", "È", "u\u0302", "û", "e\u0301", "É", "ss", "ß").Replace(s)
		}, func(s string) string {
			return strings.NewReplacer("'", "\u2019", "-", "\u2013\u200b", "\"", "\u00ab").Replace(s)
		}},
		catalog.AnswerUnmarkable: {func(s string) string { return strings.ReplaceAll(s, " ", "  ") }},
	}
	if len(q.Letters) > 0 && q.Answer.Kind != catalog.AnswerChoice {
		styles[q.Answer.Kind] = []func(string) string{strings.ToLower, func(s string) string {
			shuffled := rapid.Permutation(strings.Split(s, "")).Draw(t, "order")
			return strings.Join(append(shuffled, shuffled[0]), rapid.SampledFrom([]string{"", ",", ", "}).Draw(t, "separator"))
		}}
	}
	plain := func(s string) string { return s }
	return around + rapid.SampledFrom(append(styles[q.Answer.Kind], plain)).Draw(t, "style")(meant) + around
}

// isNumber reports whether an answer that drawMeant draws is a number.
func isNumber(meant string) bool {
	_, err := strconv.ParseFloat(meant, 64)
	return err == nil && meant != "nan"
}

// drawImpossible draws what cannot be an answer to the question.
func drawImpossible(t *rapid.T, q catalog.QuestionKey) string {
	kinds := map[catalog.AnswerKind][]string{
		catalog.AnswerChoice:   {"E", "AB", "a b", "1", "Ä"},
		catalog.AnswerChoices:  {"AX", "A;B", ",", "1"},
		catalog.AnswerAnnulled: {"Z", "A/B", ","},
	}
	return rapid.SampledFrom(append(kinds[q.Answer.Kind], strings.Repeat("x", 4097))).Draw(t, "impossible")
}

// drawRevision draws a paper of up to six questions, one of each kind, and how it is scored.
func drawRevision(t *rapid.T) catalog.AnswerKey {
	key := markingtest.EveryKind()
	key.Marking = catalog.Marking{
		Correct:    rapid.SampledFrom([]float64{1, 2, 3, 0.75}).Draw(t, "correct"),
		Incorrect:  rapid.SampledFrom([]float64{0, -1, -0.333333, -3}).Draw(t, "incorrect"),
		Unanswered: rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "unanswered"),
	}
	if rapid.Bool().Draw(t, "short") {
		key.Keys = key.Keys[:rapid.IntRange(1, len(key.Keys)).Draw(t, "questions")]
	}
	if seldom(t, "essays") {
		key.Keys = markingtest.EveryKind().Keys[5:]
		key.Keys[0].SectionName = "Essays"
		return key
	}
	key.Keys[0].Answer.Choices = []string{rapid.SampledFrom(markingtest.Letters()).Draw(t, "right")}
	key.Scoring.PartialCredit = rapid.Bool().Draw(t, "partial credit")
	if rapid.Bool().Draw(t, "pass mark") {
		key.Scoring.PassMark, key.Scoring.MaxScore = new(float64(rapid.IntRange(0, 10).Draw(t, "pass mark"))), new(20.0)
	}
	if rapid.Bool().Draw(t, "conversion") {
		key.Scoring.Conversion = []catalog.Conversion{{Raw: 0, Scaled: 100}, {Raw: 2.5, Scaled: 200}, {Raw: 9, Scaled: 400}}
		key.Scoring.Bands = []catalog.Band{{Label: "low", Min: 0, Max: 199}, {Label: "high", Min: 400, Max: 500}}
		if rapid.Bool().Draw(t, "scale") {
			key.Scoring.Scale = &catalog.Scale{Min: 50, Max: 600}
		}
	}
	return key
}
