package catalog

import (
	"math"
	"slices"
)

// Limits of a question. They equal those of the schema of ExamContent, so that a question in a chunk has the limits of an inline one.
const (
	maxSection = 10_000
	maxNumber  = 100_000
	maxPage    = 1_000_000

	minOptions, maxOptions = 2, 11
	maxChoices             = 8

	maxProse  = 64 << 10 // characters of a prompt, an explanation and an option; the schema has no limit of an option
	maxPhrase = 300      // characters of a section's name, a topic and an answer in words
)

func (v *inspector) question(q *Question) {
	v.between("section", q.Section, 1, maxSection)
	v.text("sectionName", q.SectionName, maxPhrase)
	v.between("number", q.Number, 1, maxNumber)
	v.required("prompt", q.Prompt, maxProse)
	v.options(q)
	v.within("answer", func() { v.answer(q) })
	v.text("explanation", q.Explanation, maxProse)
	v.between("page", q.Page, 0, maxPage) // 0: unknown
	v.text("topic", q.Topic, maxPhrase)
}

func (v *inspector) options(q *Question) {
	if q.Options == nil {
		return
	}
	if n := len(q.Options); n < minOptions || n > maxOptions {
		v.reportf("options", "must be %d to %d, not %d", minOptions, maxOptions, n)
	}
	for _, letter := range q.letters() {
		if len(letter) != 1 || letter[0] < 'A' || letter[0] > 'Z' {
			v.reportf("options", "names must be single letters A to Z, not %.20q", letter)
			continue
		}
		field := "options." + letter
		if q.HasVisual { // the option may be a figure
			v.text(field, q.Options[letter], maxProse)
		} else {
			v.required(field, q.Options[letter], maxProse)
		}
	}
}

func (v *inspector) answer(q *Question) {
	answer := q.Answer
	switch answer.Kind {
	case AnswerChoice:
		if len(answer.Choices) != 1 {
			v.reportf("choice", "must be one letter")
			return
		}
		v.offered("choice", q, answer.Choices[0])
	case AnswerChoices:
		v.choices(q)
	case AnswerNumeric:
		if math.IsNaN(answer.Number) || math.IsInf(answer.Number, 0) {
			v.reportf("number", "must be a finite number")
		}
		if math.IsNaN(answer.Tolerance) || math.IsInf(answer.Tolerance, 0) || answer.Tolerance < 0 {
			v.reportf("tolerance", "must be a finite number of at least 0")
		}
		v.withoutOptions("number", q)
	case AnswerText:
		v.required("text", answer.Text, maxPhrase)
		v.withoutOptions("text", q)
	case AnswerAnnulled, AnswerUnmarkable:
	case "":
		v.reportf("", "is required")
	default:
		v.reportf("", "has the unknown kind %.20q", string(answer.Kind))
	}
}

func (v *inspector) choices(q *Question) {
	letters := q.Answer.Choices
	if n := len(letters); n < 1 || n > maxChoices {
		v.reportf("choices", "must name 1 to %d letters, not %d", maxChoices, n)
	}
	for i, letter := range letters {
		if slices.Contains(letters[:i], letter) {
			v.reportf("choices", "names %.20q twice", letter)
			continue
		}
		v.offered("choices", q, letter)
	}
}

func (v *inspector) offered(field string, q *Question, letter string) {
	if _, offered := q.Options[letter]; !offered {
		v.reportf(field, "%.20q is not among the options", letter)
	}
}

func (v *inspector) withoutOptions(field string, q *Question) {
	if len(q.Options) > 0 {
		v.reportf(field, "cannot answer a question with options")
	}
}
