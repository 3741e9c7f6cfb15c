package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// The canonical form of a paper, which a reviewer seals and SealDigest hashes, is one JSON object in RFC 8785 form (no
// white space, members sorted, ECMAScript numbers, shortest escapes), in UTF-8. Strings count as they are written: no
// Unicode normalisation, no trimming. A member whose value is absent (an empty string, a zero integer, false, no
// options, no marking) is left out, so that a field added to papers later leaves old seals valid.
//
//	canonical     always "examprep.dev/paper/v1"
//	duration_min  integer, the paper's own
//	language      string
//	marking       {correct, incorrect, unanswered}: numbers, all three always there
//	paper_id      string
//	provenance    {license, publisher, source_digest, source_url}: strings
//	questions     array of questions, in the paper's order
//	subject       string
//	title         string
//	year          integer
//
// A question:
//
//	answer        {kind} and by kind: choices (array of letters, sorted) for choice and choices; number and tolerance,
//	              both always there, for numeric; text for text; nothing for annulled and unmarkable
//	explanation   string
//	has_visual    true
//	number        integer, always there
//	options       object of letter to text
//	page          integer
//	prompt        string
//	section       integer, always there
//	section_name  string
//	topic         string
//
// The form leaves out the verification itself, and the values that a paper takes from its exam (scoring, a missing time limit),
// which a reviewer does not check. A paper's revision digest covers these values.
//
// The form is written by hand because papers are large and publishing must keep up with Postgres; the tests hold it
// against an RFC 8785 library and against golden digests. Changing any of it invalidates every seal there is.
const (
	canonicalPaper         = "examprep.dev/paper/v1"
	canonicalPaperRevision = "examprep.dev/paper-revision/v1"
	canonicalExam          = "examprep.dev/exam/v1"
)

// SealDigest returns the SHA-256 of the paper's canonical form, the value of verification.digest. It fails with a
// *ValidationError on a paper without a canonical form: strings that are not UTF-8, numbers that are not finite.
func (p Paper) SealDigest() (Digest, error) {
	form, err := p.canonical()
	if err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(form), nil
}

// of reports whether it is the verification of the paper with this seal digest.
func (v *Verification) of(seal Digest) bool { return v != nil && v.Digest == seal.String() }

func (p Paper) canonical() ([]byte, error) {
	w := &canonicalWriter{buf: make([]byte, 0, 512+700*len(p.Questions))}
	w.open('{')
	w.text("canonical", canonicalPaper)
	w.optionalInteger("duration_min", p.DurationMinutes)
	w.text("language", p.Language)
	if p.Marking != nil {
		w.name("marking")
		w.open('{')
		w.number("correct", p.Marking.Correct)
		w.number("incorrect", p.Marking.Incorrect)
		w.number("unanswered", p.Marking.Unanswered)
		w.close('}')
	}
	w.text("paper_id", p.ID)
	w.name("provenance")
	w.open('{')
	w.text("license", p.Provenance.License)
	w.text("publisher", p.Provenance.Publisher)
	w.text("source_digest", p.Provenance.SourceDigest)
	w.text("source_url", p.Provenance.SourceURL)
	w.close('}')
	w.name("questions")
	w.open('[')
	for i := range p.Questions {
		w.comma()
		w.question(&p.Questions[i])
	}
	w.close(']')
	w.text("subject", p.Subject)
	w.text("title", p.Title)
	w.optionalInteger("year", p.Year)
	w.close('}')
	return w.buf, w.err
}

// canonicalWriter appends RFC 8785 JSON. Members must be written in their sorted order.
type canonicalWriter struct {
	buf []byte
	// err is the first thing that has no canonical form.
	err error
}

func (w *canonicalWriter) question(q *Question) {
	w.open('{')
	w.name("answer")
	w.answer(q.Answer)
	w.text("explanation", q.Explanation)
	if q.HasVisual {
		w.name("has_visual")
		w.buf = append(w.buf, "true"...)
	}
	w.integer("number", q.Number)
	if len(q.Options) > 0 {
		w.name("options")
		w.open('{')
		// Letters are ASCII, for which Go's order is RFC 8785's; other names fail validation before they are published.
		for _, letter := range q.letters() {
			w.name(letter)
			w.string(q.Options[letter])
		}
		w.close('}')
	}
	w.optionalInteger("page", q.Page)
	w.text("prompt", q.Prompt)
	w.integer("section", q.Section)
	w.text("section_name", q.SectionName)
	w.text("topic", q.Topic)
	w.close('}')
}

func (w *canonicalWriter) answer(a Answer) {
	w.open('{')
	if a.Kind == AnswerChoice || a.Kind == AnswerChoices {
		w.name("choices")
		w.open('[')
		for _, letter := range slices.Sorted(slices.Values(a.Choices)) {
			w.comma()
			w.string(letter)
		}
		w.close(']')
	}
	w.name("kind")
	w.string(string(a.Kind))
	switch a.Kind {
	case AnswerNumeric:
		w.number("number", a.Number)
		w.number("tolerance", a.Tolerance)
	case AnswerText:
		w.text("text", a.Text)
	case AnswerChoice, AnswerChoices, AnswerAnnulled, AnswerUnmarkable: // nothing after kind
	}
	w.close('}')
}

func (w *canonicalWriter) open(bracket byte)  { w.buf = append(w.buf, bracket) }
func (w *canonicalWriter) close(bracket byte) { w.buf = append(w.buf, bracket) }

// comma separates what follows from what precedes, unless that is an opening bracket.
func (w *canonicalWriter) comma() {
	if last := w.buf[len(w.buf)-1]; last != '{' && last != '[' {
		w.buf = append(w.buf, ',')
	}
}

func (w *canonicalWriter) name(name string) {
	w.comma()
	w.string(name)
	w.buf = append(w.buf, ':')
}

func (w *canonicalWriter) text(name, value string) {
	if value != "" {
		w.name(name)
		w.string(value)
	}
}

func (w *canonicalWriter) optionalInteger(name string, value int) {
	if value != 0 {
		w.integer(name, value)
	}
}

func (w *canonicalWriter) integer(name string, value int) {
	w.name(name)
	w.buf = strconv.AppendInt(w.buf, int64(value), 10)
}

func (w *canonicalWriter) number(name string, value float64) {
	w.name(name)
	if math.IsNaN(value) || math.IsInf(value, 0) {
		w.fail(name, "must be a finite number")
		return
	}
	text, err := jcs.NumberToJSON(value)
	if err != nil {
		w.fail(name, err.Error())
		return
	}
	w.buf = append(w.buf, text...)
}

func (w *canonicalWriter) fail(field, detail string) {
	if w.err == nil {
		w.err = &ValidationError{Problems: []Problem{{Field: field, Detail: detail}}}
	}
}

// string appends s quoted. Runs without anything to escape, almost all there is, are copied whole.
func (w *canonicalWriter) string(s string) {
	const hexDigits = "0123456789abcdef"
	if !utf8.ValidString(s) {
		w.fail("", fmt.Sprintf("not valid UTF-8: %.40q", s))
		return
	}
	w.buf = append(w.buf, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		w.buf = append(w.buf, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			w.buf = append(w.buf, '\\', c)
		case '\b':
			w.buf = append(w.buf, '\\', 'b')
		case '\t':
			w.buf = append(w.buf, '\\', 't')
		case '\n':
			w.buf = append(w.buf, '\\', 'n')
		case '\f':
			w.buf = append(w.buf, '\\', 'f')
		case '\r':
			w.buf = append(w.buf, '\\', 'r')
		default:
			w.buf = append(w.buf, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	w.buf = append(w.buf, s[start:]...)
	w.buf = append(w.buf, '"')
}

// paperRevisionDigest identifies a published paper: its sealed content and what it takes from its exam. scoring is
// covered by the keys that have a meaning; a remark added to the rubric makes no new revision of every paper.
func paperRevisionDigest(seal Digest, durationMinutes int, scoring Scoring) (Digest, error) {
	return digestOf(struct {
		Canonical       string  `json:"canonical"`
		DurationMinutes int     `json:"duration_min"`
		Scoring         Scoring `json:"scoring"`
		Seal            string  `json:"seal"`
	}{canonicalPaperRevision, durationMinutes, scoring, seal.String()})
}

// examDigest identifies an exam's whole content: its own fields, its papers' revisions and their seals.
func examDigest(exam Exam, papers []paperRef) (Digest, error) {
	return digestOf(struct {
		Canonical string     `json:"canonical"`
		Exam      Exam       `json:"exam"`
		Papers    []paperRef `json:"papers"`
	}{canonicalExam, exam, papers})
}

// digestOf hashes the RFC 8785 form of a small document.
func digestOf(document any) (Digest, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return Digest{}, fmt.Errorf("encode for digest: %w", err)
	}
	form, err := jcs.Transform(raw)
	if err != nil {
		return Digest{}, fmt.Errorf("canonical form: %w", err)
	}
	return sha256.Sum256(form), nil
}
