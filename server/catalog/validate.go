package catalog

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"

	"github.com/gowebpki/jcs"
	"golang.org/x/text/language"
)

// Bounds of publishable content. They are generous: their purpose is that a broken file is named, not swallowed.
const (
	maxKey       = 100
	maxName      = 300
	maxURL       = 2048
	maxProse     = 64 << 10 // characters of a prompt, an option or an explanation
	maxFreeForm  = 64 << 10 // bytes of scoring and of each step of a study path
	maxList      = 1000     // sections, links, steps, papers
	maxQuestions = 10_000
	maxMinutes   = 7 * 24 * 60
	maxNumber    = 1_000_000 // sections, question numbers, pages

	// The length of a paper_id (docs/spec.md, part 8).
	minPaperID, maxPaperID = 6, 160

	minYear, maxYear = 1800, 2200
)

// An exam key is one segment of a path, in lower case so that it has one spelling; a paper ID travels in JSON and is
// shown in file names.
var (
	examKeyShape = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	paperIDShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)
)

// ValidExam is an exam that Validate accepted. Only Validate makes one. Functions that take a ValidExam return ErrNotValidated for a
// zero one.
type ValidExam struct {
	exam    Exam
	scoring Scoring
}

// Key returns the exam's key; "" of a zero ValidExam.
func (v ValidExam) Key() string { return v.exam.Key }

// Exam returns the exam. It shares slices and maps with the ValidExam, so it must not be changed.
func (v ValidExam) Exam() Exam { return v.exam }

// Validate returns exam as a ValidExam, or a *ValidationError with every rule that it breaks. It checks only content: the Publisher
// checks seals. The caller must not change the exam afterwards.
func Validate(exam Exam) (ValidExam, error) {
	v := &inspector{}
	scoring := v.exam(exam)
	if err := v.err(); err != nil {
		return ValidExam{}, err
	}
	return ValidExam{exam, scoring}, nil
}

// Inspect is Validate with warnings, which prevent no publication: keys of scoring that have no effect, and LaTeX commands that probably
// lost a backslash.
func Inspect(exam Exam) (warnings []Problem, err error) {
	v := &inspector{warn: true}
	v.exam(exam)
	return v.warnings, v.err()
}

func (v *inspector) exam(exam Exam) (scoring Scoring) {
	if len(exam.Key) > maxKey || !examKeyShape.MatchString(exam.Key) {
		v.reportf("examKey", "must be at most %d of a-z, 0-9 and single inner hyphens", maxKey)
	}
	v.required("name", exam.Name, maxName)
	v.text("category", exam.Category, maxName)
	v.text("country", exam.Country, maxName)
	v.countryCode(exam.CountryCode)
	v.between("durationMinutes", exam.DurationMinutes, 0, maxMinutes)
	v.length("sections", len(exam.Sections))
	for i, section := range exam.Sections {
		v.at("sections", i, func() { v.section(section) })
	}
	v.within("scoring", func() { scoring = v.scoring(exam.Scoring) })
	v.within("resources", func() {
		v.links("officialSites", exam.Resources.OfficialSites)
		v.links("pastQuestionsSources", exam.Resources.PastQuestionsSources)
	})
	v.within("studyPath", func() { v.studyPath(exam.StudyPath) })
	v.length("papers", len(exam.Papers))
	seen := make(map[string]int, len(exam.Papers))
	for i := range exam.Papers {
		v.at("papers", i, func() {
			paper := &exam.Papers[i]
			if first, again := seen[paper.ID]; again {
				v.reportf("paperID", "%q is the ID of papers[%d] too", paper.ID, first)
			} else {
				seen[paper.ID] = i
			}
			v.paper(paper)
		})
	}
	return scoring
}

func (v *inspector) length(field string, n int) {
	if n > maxList {
		v.reportf(field, "must have at most %d entries, not %d", maxList, n)
	}
}

// countryCode accepts ISO 3166-1 alpha-2 as CLDR knows it, in upper case and without withdrawn codes and aliases.
func (v *inspector) countryCode(code string) {
	if code == "" {
		return
	}
	region, err := language.ParseRegion(code)
	if err != nil || len(code) != 2 || region.Canonicalize().String() != code || !region.IsCountry() {
		v.reportf("countryCode", "must be an ISO 3166-1 alpha-2 code in upper case, not %.20q", code)
	}
}

func (v *inspector) section(section Section) {
	v.required("name", section.Name, maxName)
	v.between("durationMinutes", section.DurationMinutes, 0, maxMinutes)
	v.between("questions", section.Questions, 0, maxNumber)
	v.names("questionTypes", section.QuestionTypes)
	v.names("skills", section.Skills)
}

func (v *inspector) names(field string, values []string) {
	v.length(field, len(values))
	for i, value := range values {
		v.at(field, i, func() { v.required("", value, maxName) })
	}
}

func (v *inspector) links(field string, links []Link) {
	v.length(field, len(links))
	for i, link := range links {
		v.at(field, i, func() {
			v.required("title", link.Title, maxName)
			v.link("url", link.URL)
		})
	}
}

func (v *inspector) studyPath(path StudyPath) {
	v.between("weeks", path.Weeks, 0, maxNumber)
	if math.IsNaN(path.HoursTotal) || path.HoursTotal < 0 || path.HoursTotal > maxNumber {
		v.reportf("hoursTotal", "must be 0 to %d", maxNumber)
	}
	v.length("steps", len(path.Steps))
	for i, step := range path.Steps {
		v.at("steps", i, func() { v.freeForm(step) })
	}
}

// freeForm checks an object that is served unchanged. It refuses values that RFC 8785 cannot represent (a repeated name, a number
// beyond float64, half a surrogate pair): readers disagree about them, and they have no digest.
func (v *inspector) freeForm(raw json.RawMessage) bool {
	switch {
	case len(raw) > maxFreeForm:
		v.reportf("", "must have at most %d bytes", maxFreeForm)
	case !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")):
		v.reportf("", "must be an object")
	default:
		if _, err := jcs.Transform(raw); err != nil {
			v.reportf("", "is not unambiguous JSON: %s", strings.ToLower(err.Error()))
			return false
		}
		return v.freeFormText(raw)
	}
	return false
}

// freeFormText decodes an object only if it has an escape or a forbidden character, or if warnings are asked for.
func (v *inspector) freeFormText(raw json.RawMessage) bool {
	if !v.warn && bytes.IndexByte(raw, '\\') < 0 && indexForbidden(string(raw)) < 0 {
		return true
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		v.reportf("", "is not JSON")
		return false
	}
	before := len(v.problems) + v.omitted
	v.checkFreeForm("", value)
	return len(v.problems)+v.omitted == before
}
