package catalog

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// Limits of a paper's identity and proof.
const (
	minPaperID, maxPaperID = 6, 160
	minYear, maxYear       = 1800, 2200

	maxName     = 300 // characters of a publisher and a license
	maxURL      = 2048
	maxReviewer = 200

	// maxMarkDecimals is exact enough for the thirds that exam boards print.
	maxMarkDecimals = 6
)

// paperIDShape is the form of a paper ID, which is in JSON and in file names.
var paperIDShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

func (v *inspector) paper(paper *Paper) {
	if len(paper.ID) < minPaperID || len(paper.ID) > maxPaperID || !paperIDShape.MatchString(paper.ID) {
		v.reportf("paperID", "must be %d to %d of letters, digits, '.', '_', ':' and '-', beginning with a letter or digit",
			minPaperID, maxPaperID)
	}
	v.text("title", paper.Title, bySchema)
	v.text("subject", paper.Subject, bySchema)
	// The catalogue groups papers by year, which the specification requires.
	v.between("year", paper.Year, minYear, maxYear)
	v.language(paper.Language)
	if m := paper.Marking; m != nil {
		v.within("marking", func() {
			v.decimals("correct", m.Correct)
			v.decimals("incorrect", m.Incorrect)
			v.decimals("unanswered", m.Unanswered)
		})
	}
	v.within("provenance", func() { v.provenance(paper.Provenance) })
	if paper.Verification != nil {
		v.within("verification", func() { v.verification(*paper.Verification) })
	}
	switch n := len(paper.Questions); {
	case n == 0:
		v.reportf("questions", "must not be empty")
	case n > MaxQuestions:
		v.reportf("questions", "must have at most %d entries, not %d", MaxQuestions, n)
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
	if _, err := language.Parse(tag); err != nil {
		v.reportf("language", "must be a BCP 47 tag, not %.40q", tag)
	}
}

// decimals checks the number of decimals of marks.
func (v *inspector) decimals(field string, marks float64) {
	_, decimals, _ := strings.Cut(strconv.FormatFloat(marks, 'f', -1, 64), ".")
	if len(decimals) > maxMarkDecimals {
		v.reportf(field, "must have at most %d decimals", maxMarkDecimals)
	}
}

// provenance is required in full: only real past questions are ever served, and this is their proof.
func (v *inspector) provenance(p Provenance) {
	v.required("publisher", p.Publisher, maxName)
	v.link("sourceURL", p.SourceURL, maxURL)
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
	v.required("by", seal.By, maxReviewer)
	if !isDateOrTime(seal.At) {
		v.reportf("at", "must be a date or an RFC 3339 time, not %.40q", seal.At)
	}
	v.digest("digest", seal.Digest)
	v.text("signature", seal.Signature, bySchema)
}

// isDateOrTime reports whether text is a date or an RFC 3339 time of at most 40 characters, as the schema of a seal says. Go's parser
// also takes a comma before a fraction.
func isDateOrTime(text string) bool {
	const maxLength = 40
	if len(text) > maxLength || strings.ContainsRune(text, ',') {
		return false
	}
	_, notTime := time.Parse(time.RFC3339, text)
	_, notDate := time.Parse(time.DateOnly, text)
	return notTime == nil || notDate == nil
}

func (v *inspector) digest(field, value string) {
	if _, err := ParseDigest(value); err != nil {
		v.reportf(field, "must be sha256: and 64 lower-case hex digits")
	}
}
