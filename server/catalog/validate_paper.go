package catalog

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"examprep.dev/server/seals"
)

// Bounds of marks: small enough that no sum loses a decimal, exact enough for the thirds that exam boards print.
const (
	maxMarks        = 1000
	maxMarkDecimals = 6
)

func (v *inspector) paper(paper *Paper) {
	if len(paper.ID) < minPaperID || len(paper.ID) > maxPaperID || !paperIDShape.MatchString(paper.ID) {
		v.reportf("paperID", "must be %d to %d of letters, digits, '.', '_', ':' and '-', beginning with a letter or digit",
			minPaperID, maxPaperID)
	}
	v.text("title", paper.Title, maxName)
	v.text("subject", paper.Subject, maxName)
	// The catalogue groups papers by year, which the specification requires.
	v.between("year", paper.Year, minYear, maxYear)
	v.between("durationMinutes", paper.DurationMinutes, 0, maxMinutes)
	v.language(paper.Language)
	if paper.Marking != nil {
		v.within("marking", func() { v.marking(*paper.Marking) })
	}
	v.within("provenance", func() { v.provenance(paper.Provenance) })
	if paper.Verification != nil {
		v.within("verification", func() { v.verification(*paper.Verification) })
	}
	switch n := len(paper.Questions); {
	case n == 0:
		v.reportf("questions", "must not be empty")
	case n > maxQuestions:
		v.reportf("questions", "must have at most %d entries, not %d", maxQuestions, n)
	}
	type place struct{ section, number int }
	seen := make(map[place]int, len(paper.Questions))
	for i := range paper.Questions {
		question := &paper.Questions[i]
		v.at("questions", i, func() {
			here := place{question.Section, question.Number}
			if first, again := seen[here]; again {
				v.reportf("number", "section %d has a question %d already: questions[%d]", here.section, here.number, first)
			} else {
				seen[here] = i
			}
			v.question(question)
		})
	}
}

func (v *inspector) language(tag string) {
	if tag == "" {
		return
	}
	if _, err := language.Parse(tag); err != nil || strings.Contains(tag, "_") {
		v.reportf("language", "must be a BCP 47 tag, not %.40q", tag)
	}
}

func (v *inspector) marking(m Marking) {
	v.marks("correct", m.Correct)
	v.marks("incorrect", m.Incorrect)
	v.marks("unanswered", m.Unanswered)
	if m.Correct <= 0 {
		v.reportf("correct", "must be more than 0")
	}
	if m.Incorrect > m.Correct {
		v.reportf("incorrect", "must not earn more than a correct answer")
	}
	if m.Unanswered > m.Correct {
		v.reportf("unanswered", "must not earn more than a correct answer")
	}
}

func (v *inspector) marks(field string, marks float64) {
	if math.IsNaN(marks) || math.Abs(marks) > maxMarks {
		v.reportf(field, "must be %d to %d", -maxMarks, maxMarks)
		return
	}
	_, decimals, _ := strings.Cut(strconv.FormatFloat(marks, 'f', -1, 64), ".")
	if len(decimals) > maxMarkDecimals {
		v.reportf(field, "must have at most %d decimals", maxMarkDecimals)
	}
}

// provenance is required in full: only real past questions are ever served, and this is their proof.
func (v *inspector) provenance(p Provenance) {
	v.required("publisher", p.Publisher, maxName)
	v.link("sourceURL", p.SourceURL)
	v.required("license", p.License, maxName)
	if p.SourceDigest != "" {
		v.digest("sourceDigest", p.SourceDigest)
	}
}

// CheckVerification returns what is wrong with a seal, whatever paper it is of. Fields are by, at, digest and signature.
func CheckVerification(seal Verification) []Problem {
	v := &inspector{}
	v.verification(seal)
	return v.problems
}

func (v *inspector) verification(seal Verification) {
	v.required("by", seal.By, maxName)
	if _, err := time.Parse(time.RFC3339, seal.At); err != nil {
		if _, err := time.Parse(time.DateOnly, seal.At); err != nil {
			v.reportf("at", "must be a date or an RFC 3339 time, not %.40q", seal.At)
		}
	}
	v.digest("digest", seal.Digest)
	v.text("signature", seal.Signature, seals.MaxSignature)
}

func (v *inspector) digest(field, value string) {
	if _, err := ParseDigest(value); err != nil {
		v.reportf(field, "must be sha256: and 64 lower-case hex digits")
	}
}

func (v *inspector) question(q *Question) {
	v.between("section", q.Section, 1, maxNumber)
	v.text("sectionName", q.SectionName, maxName)
	v.between("number", q.Number, 1, maxNumber)
	v.required("prompt", q.Prompt, maxProse)
	v.options(q)
	v.within("answer", func() { v.answer(q) })
	v.text("explanation", q.Explanation, maxProse)
	v.between("page", q.Page, 0, maxNumber)
	v.text("topic", q.Topic, maxName)
}

func (v *inspector) options(q *Question) {
	if q.Options == nil {
		return
	}
	if len(q.Options) < 2 {
		v.reportf("options", "must offer at least two")
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
		v.required("text", answer.Text, maxName)
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
	if len(letters) == 0 {
		v.reportf("choices", "must name at least one letter")
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
