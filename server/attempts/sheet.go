package attempts

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"examprep.dev/server/catalog"
)

const (
	// maxAnswer bounds one answer, in characters; the longest that a machine can mark is a short text.
	maxAnswer = 4096
	// maxProblems bounds how many mistakes one error lists.
	maxProblems = 20
)

// Answer is one entry of a submission's answers, in the order of the request.
type Answer struct {
	// Key is an answer_id ("1:7") or, where only one section has that number, the plain question number ("7").
	Key string
	// Value is what was answered, a string whatever the kind of question; empty or blank: unanswered.
	Value string
}

// sheet is a paper's key, prepared for reading and grading a submission.
type sheet struct {
	key *catalog.AnswerKey
	// ids are the answer_ids in paper order; byID and byNumber lead from one, and from a plain number, to positions.
	ids      []string
	byID     map[string]int
	byNumber map[string][]int
}

func newSheet(key *catalog.AnswerKey) sheet {
	s := sheet{
		key: key, ids: make([]string, len(key.Keys)),
		byID: make(map[string]int, len(key.Keys)), byNumber: make(map[string][]int, len(key.Keys)),
	}
	for i, q := range key.Keys {
		s.ids[i] = catalog.AnswerID(q.Section, q.Number)
		s.byID[s.ids[i]] = i
		number := strconv.Itoa(q.Number)
		s.byNumber[number] = append(s.byNumber[number], i)
	}
	return s
}

// read normalises a submission: one string per question in paper order, "" where unanswered. It fails with an *Error
// that carries the code of the first mistake and lists all of them, up to maxProblems.
func (s sheet) read(given []Answer) ([]string, error) {
	answers := make([]string, len(s.key.Keys))
	takenBy := make(map[int]string, len(given))
	var mistakes []mistake
	for _, answer := range given {
		if len(mistakes) == maxProblems {
			break
		}
		position, problem := s.locate(answer.Key)
		if problem == nil {
			if earlier, taken := takenBy[position]; taken {
				problem = &mistake{code: CodeDuplicateKey, detail: fmt.Sprintf("%q names the same question", earlier)}
			} else {
				takenBy[position] = answer.Key
				answers[position], problem = normalise(s.key.Keys[position], answer.Value)
			}
		}
		if problem != nil {
			problem.key = answer.Key
			mistakes = append(mistakes, *problem)
		}
	}
	if len(mistakes) > 0 {
		return nil, refusal(mistakes)
	}
	return answers, nil
}

// locate finds the question that a key names.
func (s sheet) locate(key string) (int, *mistake) {
	if position, ok := s.byID[key]; ok {
		return position, nil
	}
	switch candidates := s.byNumber[key]; len(candidates) {
	case 0:
		return 0, &mistake{code: CodeUnknownAnswerID, detail: "the paper has no such question"}
	case 1:
		return candidates[0], nil
	default:
		ids := make([]string, len(candidates))
		for i, c := range candidates {
			ids[i] = s.ids[c]
		}
		return 0, &mistake{code: CodeAmbiguousKey, detail: "could be " + strings.Join(ids, ", ")}
	}
}

// store renders normalised answers as the JSON object that is kept: answered questions only. Equal answers give equal
// bytes.
func (s sheet) store(answers []string) (json.RawMessage, error) {
	byID := make(map[string]string, len(answers))
	for i, answer := range answers {
		if answer != "" {
			byID[s.ids[i]] = answer
		}
	}
	return json.Marshal(byID)
}

// restore is the inverse of store.
func (s sheet) restore(stored json.RawMessage) ([]string, error) {
	var byID map[string]string
	if err := json.Unmarshal(stored, &byID); err != nil {
		return nil, fmt.Errorf("stored answers: %w", err)
	}
	answers := make([]string, len(s.key.Keys))
	for id, answer := range byID {
		position, ok := s.byID[id]
		if !ok {
			return nil, fmt.Errorf("stored answers name %q, which the pinned revision does not have", id)
		}
		answers[position] = answer
	}
	return answers, nil
}

// mistake is one refused entry of answers.
type mistake struct{ key, code, detail string }

func refusal(mistakes []mistake) *Error {
	first := mistakes[0]
	err := &Error{Code: first.code, Detail: fmt.Sprintf("Answer %q: %s.", first.key, first.detail)}
	for _, m := range mistakes {
		err.Fields = append(err.Fields, FieldError{Field: "answers." + m.key, Detail: m.detail})
	}
	return err
}

// normalise brings an answer into the one form that is compared, stored and shown, so that "c, a" and "AC", or "12.50"
// and "12.5", are the same answer. It is idempotent. A blank answer is "", unanswered, for every kind of question.
func normalise(q catalog.QuestionKey, value string) (string, *mistake) {
	if utf8.RuneCountInString(value) > maxAnswer {
		return "", &mistake{code: CodeInvalidOption, detail: fmt.Sprintf("longer than %d characters", maxAnswer)}
	}
	value = tidy(value)
	if value == "" {
		return "", nil
	}
	switch q.Answer.Kind {
	case catalog.AnswerChoice:
		return oneLetter(q.Letters, value)
	case catalog.AnswerChoices:
		return severalLetters(q.Letters, value)
	case catalog.AnswerNumeric:
		return number(value)
	case catalog.AnswerText:
		return foldText(value), nil
	default: // annulled or unmarkable: the answer decides nothing, but letters that were never offered are a mistake
		if len(q.Letters) > 0 {
			return severalLetters(q.Letters, value)
		}
		return value, nil
	}
}

// tidy trims, makes every run of spaces and control characters one space, and replaces what is not UTF-8.
func tidy(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// foldText makes texts comparable: the Unicode standard's canonical caseless matching (D145) on tidied text, so that
// neither case nor the way an accent is typed matters. cases.Fold swaps the two cases of Cherokee instead of choosing
// one; the lower-casing after it changes nothing else and settles that.
func foldText(text string) string {
	folded := cases.Fold().String(norm.NFD.String(tidy(text)))
	return tidy(norm.NFD.String(strings.ToLower(folded)))
}

func oneLetter(letters []string, value string) (string, *mistake) {
	if letter, ok := findLetter(letters, value); ok {
		return letter, nil
	}
	return "", notOffered(letters, value)
}

// severalLetters reads a set of letters: in any order and case, run together or separated by commas and spaces, a
// letter given twice counting once. It returns them in the order of the options.
func severalLetters(letters []string, value string) (string, *mistake) {
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
// letter (catalog.Validate sees to it), so the parts can be told again.
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

func notOffered(letters []string, value string) *mistake {
	const shown = 20 // characters of the client's value that an error repeats
	if runes := []rune(value); len(runes) > shown {
		value = string(runes[:shown]) + "…"
	}
	return &mistake{
		code: CodeInvalidOption, detail: fmt.Sprintf("%q is not among the options %s", value, strings.Join(letters, ", ")),
	}
}

// decimal is a number as answers may write it: a point, never a comma; no other base, no infinity.
var decimal = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$`)

func number(value string) (string, *mistake) {
	if decimal.MatchString(value) {
		if x, err := strconv.ParseFloat(value, 64); err == nil {
			return formatNumber(x), nil
		}
	}
	return "", &mistake{code: CodeInvalidOption, detail: "not a number such as 12.5 or -3e8"}
}

// formatNumber writes the shortest decimal that reads back as x; very large and very small ones with an exponent.
func formatNumber(x float64) string {
	const plainBelow, plainFrom = 1e15, 1e-6
	if x == 0 {
		return "0" // not "-0"
	}
	if magnitude := math.Abs(x); magnitude >= plainBelow || magnitude < plainFrom {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
