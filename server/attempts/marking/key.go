package marking

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"examprep.dev/server/catalog"
)

// Key is the answer key of a paper revision in the form that reads, stores and scores submissions fastest. It never
// changes, so all requests share one.
type Key struct {
	questions []question     // in paper order
	positions map[string]int // question by answer_id and by plain number; ambiguous if several sections have the number
	sorted    []int          // questions by answer_id, in the order in which encoding/json writes the keys of a map

	correct, incorrect, unanswered marks
	scoring                        catalog.Scoring
	// passMark is the lowest raw score that passes; nil unless the scoring gives both pass_mark and max_score.
	passMark *marks
	// conversion has the lowest raw score of each row of the scoring's conversion.
	conversion []marks

	// outcome is what all submissions have in common: the maxima, and the sections without marks.
	outcome Outcome
}

const (
	// ambiguous is the position of a plain number that several sections have.
	ambiguous = -1
	// questionBytes is about what a question takes in memory besides its constant JSON.
	questionBytes = 400
)

// question is one question's key.
type question struct {
	id      string
	kind    catalog.AnswerKind
	section int      // index of the section in the outcome
	letters []string // of the options, sorted; nil if there are none
	choices []string // the right letters
	// right is the right answer in its normal form; numbers are right from lowest to highest instead, nil for other kinds.
	right           string
	lowest, highest *big.Rat
	// head, middle and tail are the constant JSON before "submitted", before "is_correct" and after "marks".
	head, middle, tail string
}

// Prepare prepares an answer key, and returns its approximate size in memory in bytes.
func Prepare(key *catalog.AnswerKey) (prepared *Key, sizeBytes int) {
	k := &Key{
		questions: make([]question, len(key.Keys)), positions: make(map[string]int, 2*len(key.Keys)),
		sorted: make([]int, len(key.Keys)), correct: marksOf(key.Marking.Correct),
		incorrect: marksOf(key.Marking.Incorrect), unanswered: marksOf(key.Marking.Unanswered),
	}
	sections := map[int]int{} // section of the paper → index
	out := &k.outcome
	var text []byte
	for i, q := range key.Keys {
		at, seen := sections[q.Section]
		if !seen {
			at = len(sections)
			sections[q.Section] = at
			out.sections = append(out.sections, sectionResult{name: q.SectionName})
		}
		earned := k.correct
		if q.Answer.Kind == catalog.AnswerUnmarkable {
			earned = 0
		}
		out.max += earned
		out.sections[at].max += earned
		k.questions[i], text = prepareQuestion(q, at, earned, text[:0])
		sizeBytes += len(text)
		k.sorted[i] = i
		k.positions[k.questions[i].id] = i
		number, position := strconv.Itoa(q.Number), i
		if _, taken := k.positions[number]; taken {
			position = ambiguous
		}
		k.positions[number] = position
	}
	slices.SortFunc(k.sorted, func(a, b int) int { return cmp.Compare(k.questions[a].id, k.questions[b].id) })
	out.sizeBytes = sizeBytes + len(k.questions)*variableBytes
	k.setScoring(key.Scoring, out.max)
	return k, sizeBytes + len(k.questions)*questionBytes
}

// Markable reports whether a machine can mark any question of the paper; annulled questions count. If false, outcomes have no score.
func (k *Key) Markable() bool { return k.outcome.max > 0 }

// setScoring prepares the scoring of a paper with that many marks.
func (k *Key) setScoring(scoring catalog.Scoring, maximum marks) {
	k.scoring, k.passMark = scoring, passMark(scoring, maximum)
	for _, row := range scoring.Conversion {
		k.conversion = append(k.conversion, atLeast(decimalOf(row.Raw)))
	}
}

// prepareQuestion prepares one question, and returns buffer with its constant JSON appended.
func prepareQuestion(q catalog.QuestionKey, section int, maxMarks marks, buffer []byte) (question, []byte) {
	id, right := catalog.AnswerID(q.Section, q.Number), correctAnswer(q)
	text := appendCount(appendText(append(buffer, `{"answer_id":`...), id), "question_number", int64(q.Number))
	head := len(text)
	text = appendMember(text, "correct_answer", right)
	middle := len(text)
	text = maxMarks.append(append(text, `,"max_marks":`...))
	text = append(appendMember(text, "explanation", q.Explanation), `,"annulled":`...)
	text = append(strconv.AppendBool(text, q.Answer.Kind == catalog.AnswerAnnulled), '}')

	whole := string(text)
	prepared := question{
		id: id, kind: q.Answer.Kind, section: section, letters: q.Letters, choices: q.Answer.Choices, right: right,
		head: whole[:head], middle: whole[head:middle], tail: whole[middle:],
	}
	switch q.Answer.Kind {
	case catalog.AnswerText:
		prepared.right = foldText(right)
	case catalog.AnswerNumeric:
		prepared.lowest, prepared.highest = rangeOf(q.Answer.Number, q.Answer.Tolerance)
	default:
	}
	return prepared, text
}

// rangeOf returns number ± tolerance exactly. Both are taken as the shortest decimals that read back as the same floats,
// so 12.51 is within 0.01 of 12.5. It returns nil for an infinity or NaN, which validation refuses.
func rangeOf(number, tolerance float64) (lowest, highest *big.Rat) {
	centre, allowed := decimalOf(number), decimalOf(tolerance)
	if centre == nil || allowed == nil {
		return nil, nil
	}
	return new(big.Rat).Sub(centre, allowed), new(big.Rat).Add(centre, allowed)
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

// appendMember appends a member after a comma, or nothing if the text is empty.
func appendMember(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return appendText(append(append(append(dst, `,"`...), name...), `":`...), text)
}

// appendText appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendText(dst []byte, text string) []byte {
	if isPlain(text) {
		return append(append(append(dst, '"'), text...), '"')
	}
	dst, _ = jsontext.AppendQuote(dst, text) // fails only after it has replaced what is not UTF-8
	return dst
}

// isPlain reports whether every encoder writes text as it is, between quotes.
func isPlain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
