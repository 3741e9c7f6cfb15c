package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// compareExams tells the differences of the exams' own fields; their papers are compared apart.
func compareExams(old, next Exam) []Change {
	d := &comparison{}
	d.field("name", old.Name, next.Name)
	d.field("category", old.Category, next.Category)
	d.field("country", old.Country, next.Country)
	d.field("countryCode", old.CountryCode, next.CountryCode)
	d.integer("durationMinutes", old.DurationMinutes, next.DurationMinutes)
	d.list("sections", documents(old.Sections), documents(next.Sections))
	d.field("scoring", freeText(old.Scoring), freeText(next.Scoring))
	d.list("resources.officialSites", documents(old.Resources.OfficialSites), documents(next.Resources.OfficialSites))
	d.list("resources.pastQuestionsSources",
		documents(old.Resources.PastQuestionsSources), documents(next.Resources.PastQuestionsSources))
	d.integer("studyPath.weeks", old.StudyPath.Weeks, next.StudyPath.Weeks)
	d.decimal("studyPath.hoursTotal", old.StudyPath.HoursTotal, next.StudyPath.HoursTotal)
	d.list("studyPath.steps", documents(old.StudyPath.Steps), documents(next.StudyPath.Steps))
	return d.changes
}

// comparePapers tells the differences of two versions of a paper, question by question; old is nil for a new paper,
// which is one change.
func comparePapers(old, next *Paper) []Change {
	if old == nil {
		return []Change{{
			Kind: Added, PaperID: next.ID, New: fmt.Sprintf("%s (%d questions)", excerpt(next.Title), len(next.Questions)),
		}}
	}
	d := &comparison{paperID: next.ID}
	d.field("title", old.Title, next.Title)
	d.field("subject", old.Subject, next.Subject)
	d.integer("year", old.Year, next.Year)
	d.integer("durationMinutes", old.DurationMinutes, next.DurationMinutes)
	d.field("language", old.Language, next.Language)
	d.field("marking", markingText(old.Marking), markingText(next.Marking))
	d.field("provenance.publisher", old.Provenance.Publisher, next.Provenance.Publisher)
	d.field("provenance.sourceURL", old.Provenance.SourceURL, next.Provenance.SourceURL)
	d.field("provenance.sourceDigest", old.Provenance.SourceDigest, next.Provenance.SourceDigest)
	d.field("provenance.license", old.Provenance.License, next.Provenance.License)
	var oldSeal, nextSeal Verification
	if old.Verification != nil {
		oldSeal = *old.Verification
	}
	if next.Verification != nil {
		nextSeal = *next.Verification
	}
	d.field("verification.by", oldSeal.By, nextSeal.By)
	d.field("verification.at", oldSeal.At, nextSeal.At)
	d.field("verification.digest", oldSeal.Digest, nextSeal.Digest)
	d.field("verification.signature", oldSeal.Signature, nextSeal.Signature)
	d.questions(old.Questions, next.Questions)
	return d.changes
}

// comparison gathers changes of one paper, or of the exam's own fields.
type comparison struct {
	paperID, answerID string
	changes           []Change
}

func (d *comparison) questions(old, next []Question) {
	before := make(map[string]*Question, len(old))
	var oldOrder, nextOrder []string
	for i := range old {
		before[AnswerID(old[i].Section, old[i].Number)] = &old[i]
	}
	seen := make(map[string]bool, len(next))
	for i := range next {
		d.answerID = AnswerID(next[i].Section, next[i].Number)
		seen[d.answerID] = true
		if was, existed := before[d.answerID]; existed {
			nextOrder = append(nextOrder, d.answerID)
			d.question(was, &next[i])
		} else {
			d.add(Change{Kind: Added, New: "answer " + answerText(next[i].Answer)})
		}
	}
	for i := range old {
		d.answerID = AnswerID(old[i].Section, old[i].Number)
		if seen[d.answerID] {
			oldOrder = append(oldOrder, d.answerID)
		} else {
			d.add(Change{Kind: Removed, Old: "answer " + answerText(old[i].Answer)})
		}
	}
	d.answerID = ""
	d.field("order of questions", strings.Join(oldOrder, " "), strings.Join(nextOrder, " "))
}

func (d *comparison) question(old, next *Question) {
	d.field("answer", answerText(old.Answer), answerText(next.Answer))
	d.field("sectionName", old.SectionName, next.SectionName)
	d.field("prompt", old.Prompt, next.Prompt)
	letters := make(map[string]bool)
	for letter := range old.Options {
		letters[letter] = true
	}
	for letter := range next.Options {
		letters[letter] = true
	}
	for _, letter := range slices.Sorted(maps.Keys(letters)) {
		d.option(letter, old.Options, next.Options)
	}
	d.field("explanation", old.Explanation, next.Explanation)
	d.integer("page", old.Page, next.Page)
	d.field("hasVisual", yes(old.HasVisual), yes(next.HasVisual))
	d.field("topic", old.Topic, next.Topic)
}

// option compares one letter's text, where an empty text is not an absent option.
func (d *comparison) option(letter string, old, next map[string]string) {
	was, existed := old[letter]
	is, exists := next[letter]
	if existed != exists && was == is {
		kind := Added
		if existed {
			kind = Removed
		}
		d.add(Change{Kind: kind, Field: "options." + letter})
		return
	}
	d.field("options."+letter, was, is)
}

func (d *comparison) add(change Change) {
	change.PaperID, change.AnswerID = d.paperID, d.answerID
	d.changes = append(d.changes, change)
}

// field compares two values, of which the empty one is absent.
func (d *comparison) field(name, old, next string) {
	switch {
	case old == next:
	case old == "":
		d.add(Change{Kind: Added, Field: name, New: excerpt(next)})
	case next == "":
		d.add(Change{Kind: Removed, Field: name, Old: excerpt(old)})
	default:
		was, is := excerpts(old, next)
		d.add(Change{Kind: Changed, Field: name, Old: was, New: is})
	}
}

func (d *comparison) integer(name string, old, next int) {
	d.decimal(name, float64(old), float64(next))
}

func (d *comparison) decimal(name string, old, next float64) {
	text := func(n float64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	d.field(name, text(old), text(next))
}

// list compares entry by entry.
func (d *comparison) list(name string, old, next []string) {
	for i := range max(len(old), len(next)) {
		var was, is string
		if i < len(old) {
			was = old[i]
		}
		if i < len(next) {
			is = next[i]
		}
		d.field(name+"["+strconv.Itoa(i)+"]", was, is)
	}
}

func documents[T any](entries []T) []string {
	texts := make([]string, len(entries))
	for i, entry := range entries {
		texts[i] = canonicalText(entry)
	}
	return texts
}

func freeText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return canonicalText(raw)
}

func markingText(m *Marking) string {
	if m == nil {
		return ""
	}
	return canonicalText(m)
}

func answerText(a Answer) string {
	number := func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
	switch a.Kind {
	case AnswerChoice, AnswerChoices:
		return strings.Join(slices.Sorted(slices.Values(a.Choices)), "+")
	case AnswerNumeric:
		if a.Tolerance != 0 {
			return number(a.Number) + " ± " + number(a.Tolerance)
		}
		return number(a.Number)
	case AnswerText:
		return strconv.Quote(a.Text)
	default:
		return string(a.Kind)
	}
}

func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// What a change shows of a long value, in bytes.
const (
	excerptLength = 100
	excerptBefore = 20
)

func excerpt(s string) string { return cut(s, 0) }

// excerpts shortens two values so that the first difference is in sight.
func excerpts(a, b string) (string, string) {
	if len(a) <= excerptLength && len(b) <= excerptLength {
		return cut(a, 0), cut(b, 0)
	}
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	from := max(0, same-excerptBefore)
	return cut(a, from), cut(b, from)
}

// oneLine keeps line breaks out of conditions, and what controls a terminal out of it.
func oneLine(r rune) rune {
	switch {
	case r == '\n':
		return '↵'
	case unicode.IsControl(r):
		return ' '
	default:
		return r
	}
}

// cut takes a piece of s from about the byte from, whole characters only, in one line.
func cut(s string, from int) string {
	from = min(from, len(s))
	for from > 0 && from < len(s) && !utf8.RuneStart(s[from]) {
		from--
	}
	to := min(from+excerptLength, len(s))
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to--
	}
	piece := strings.Map(oneLine, s[from:to])
	if from > 0 {
		piece = "…" + piece
	}
	if to < len(s) {
		piece += "…"
	}
	return piece
}
