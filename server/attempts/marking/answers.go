package marking

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"examprep.dev/server/catalog"
	"examprep.dev/server/excerpt"
)

const (
	// maxAnswer bounds one answer, in characters; the longest that a machine can mark is a short text.
	maxAnswer = 4096
	// maxProblems bounds how many mistakes one error lists.
	maxProblems = 20
	// storedBytes is about the length of a stored answer with its id.
	storedBytes = 16
)

// Answer is one entry of a submission's answers, in the order of the request.
type Answer struct {
	// Key is an answer_id ("1:7") or, where only one section has that number, the plain question number ("7").
	Key string
	// Value is what was answered, a string whatever the kind of question; empty or blank: unanswered.
	Value string
}

// Read normalises a submission: one string per question in paper order, "" where unanswered. It fails with an *Error that
// has the code of the first mistake and lists the first 20.
func (k *Key) Read(given []Answer) ([]string, error) {
	answers := make([]string, len(k.questions))
	takenBy := make([]int, len(k.questions)) // 1 + the index of the entry that answers the question
	var refused *Error
	for i, answer := range given {
		position, problem := k.locate(answer.Key)
		switch {
		case problem != nil:
		case takenBy[position] > 0:
			earlier := given[takenBy[position]-1].Key
			problem = &answerError{CodeDuplicateKey, excerpt.Quote(earlier) + " names the same question"}
		default:
			takenBy[position] = i + 1
			answers[position], problem = k.questions[position].normalise(answer.Value)
		}
		if problem == nil {
			continue
		}
		if refused == nil {
			refused = &Error{Code: problem.code, Detail: fmt.Sprintf("Answer %s: %s.", excerpt.Quote(answer.Key), problem.detail)}
		}
		refused.Fields = append(refused.Fields, FieldError{Field: "answers." + excerpt.Text(answer.Key), Detail: problem.detail})
		if len(refused.Fields) == maxProblems {
			break
		}
	}
	if refused != nil {
		return nil, refused
	}
	return answers, nil
}

// answerError is the reason why an entry of answers is refused.
type answerError struct{ code, detail string }

// locate finds the question that a key names.
func (k *Key) locate(key string) (int, *answerError) {
	position, known := k.positions[key]
	if !known {
		return 0, &answerError{CodeUnknownAnswerID, "the paper has no such question"}
	}
	if position != ambiguous {
		return position, nil
	}
	var candidates []string
	for i := range k.questions {
		if id := k.questions[i].id; strings.HasSuffix(id, ":"+key) {
			candidates = append(candidates, id)
		}
	}
	return 0, &answerError{CodeAmbiguousKey, "could be " + strings.Join(candidates, ", ")}
}

// AppendAnswers appends normalised answers as the JSON object that is stored: answered questions only, by answer_id. Equal
// answers give equal bytes, and submission digests cover these: they must stay those of json.Marshal of a map.
func (k *Key) AppendAnswers(dst []byte, answers []string) []byte {
	dst = slices.Grow(dst, storedBytes*len(answers))
	separator := byte('{')
	for _, position := range k.sorted {
		answer := answers[position]
		if answer == "" {
			continue
		}
		dst = append(append(append(dst, separator, '"'), k.questions[position].id...), `":`...)
		if isPlain(answer) {
			dst = appendText(dst, answer)
		} else {
			text, _ := json.Marshal(answer) //nolint:errchkjson // a string has no error
			dst = append(dst, text...)
		}
		separator = ','
	}
	if separator == '{' {
		dst = append(dst, separator)
	}
	return append(dst, '}')
}

// normalise brings an answer into the one form that is compared, stored and shown, so that "c, a" and "AC", or "12.50"
// and "12.5", are the same answer. It is idempotent. A blank answer is "", unanswered, for every kind of question. A text
// where a number is asked for is a wrong answer, and the client made no mistake.
func (q *question) normalise(value string) (string, *answerError) {
	if len(value) == 1 { // nearly all answers are one letter
		if letter, ok := findLetter(q.letters, value); ok {
			return letter, nil
		}
	}
	if utf8.RuneCountInString(value) > maxAnswer {
		return "", &answerError{CodeInvalidOption, fmt.Sprintf("longer than %d characters", maxAnswer)}
	}
	free := len(q.letters) == 0 && (q.kind == catalog.AnswerAnnulled || q.kind == catalog.AnswerUnmarkable)
	if !free {
		value = dropFormat(value)
	}
	if value = normalizeSpace(value); value == "" || free {
		return value, nil
	}
	switch q.kind {
	case catalog.AnswerChoice:
		if letter, ok := findLetter(q.letters, value); ok {
			return letter, nil
		}
		return "", notOffered(q.letters, value)
	case catalog.AnswerChoices:
		return severalLetters(q.letters, value)
	case catalog.AnswerNumeric:
		value, _ = foldNumber(value)
		return value, nil
	case catalog.AnswerText:
		return foldText(value), nil
	default: // annulled or unmarkable: the answer decides nothing, but letters that were never offered are a mistake
		return severalLetters(q.letters, value)
	}
}

// severalLetters reads a set of letters: in any order and case, run together or separated by commas and spaces, a
// letter given twice counting once. It returns them in the order of the options.
func severalLetters(letters []string, value string) (string, *answerError) {
	var chosen []string
	for _, r := range value {
		if r == ',' || r == ' ' {
			continue
		}
		letter, ok := findLetter(letters, string(r))
		if !ok {
			return "", notOffered(letters, string(r))
		}
		chosen = append(chosen, letter)
	}
	if len(chosen) == 0 {
		return "", notOffered(letters, value)
	}
	return joinLetters(letters, chosen), nil
}

// joinLetters writes the chosen letters run together, in the order of the options, each once. An option's name is one
// letter (catalog.Validate checks it), so the result can be split again.
func joinLetters(letters, chosen []string) string {
	var set strings.Builder
	for _, letter := range letters {
		if slices.Contains(chosen, letter) {
			set.WriteString(letter)
		}
	}
	return set.String()
}

func findLetter(letters []string, word string) (string, bool) {
	for _, letter := range letters {
		if strings.EqualFold(letter, word) {
			return letter, true
		}
	}
	return "", false
}

func notOffered(letters []string, value string) *answerError {
	return &answerError{CodeInvalidOption, fmt.Sprintf("%s is not among the options %s", excerpt.Quote(value), strings.Join(letters, ", "))}
}
