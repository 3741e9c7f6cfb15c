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

// The schema of ExamContent (api/v1alpha1) limits the fields of exams and papers. This package checks in them what identifies an exam or
// a paper, what proves the source of a paper, the characters of texts, and what a schema cannot say. It checks all of a question, because
// a question in a chunk passes no API server.
const (
	// bySchema is the limit of a text whose length only the schema limits.
	bySchema = math.MaxInt

	maxKey      = 100
	maxFreeForm = 64 << 10 // bytes of scoring and of each step of a study path
)

// examKeyShape is the form of an exam key: one segment of a path, in lower case so that it has one spelling.
var examKeyShape = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

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

// Validate returns exam as a ValidExam, or a *ValidationError with every rule that it breaks. The exam is one that the schema of
// ExamContent accepts. Validate checks only content: the Publisher checks seals. The caller must not change the exam afterwards.
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
	v.required("name", exam.Name, bySchema)
	v.text("category", exam.Category, bySchema)
	v.text("country", exam.Country, bySchema)
	v.countryCode(exam.CountryCode)
	for i, section := range exam.Sections {
		v.at("sections", i, func() { v.section(section) })
	}
	v.within("scoring", func() { scoring = v.scoring(exam.Scoring) })
	v.within("resources", func() {
		v.links("officialSites", exam.Resources.OfficialSites)
		v.links("pastQuestionsSources", exam.Resources.PastQuestionsSources)
	})
	v.within("studyPath", func() {
		for i, step := range exam.StudyPath.Steps {
			v.at("steps", i, func() { v.freeForm(step) })
		}
	})
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

// countryCode accepts ISO 3166-1 alpha-2 as CLDR knows it, in upper case and without withdrawn codes and aliases.
func (v *inspector) countryCode(code string) {
	if code == "" {
		return
	}
	region, err := language.ParseRegion(code)
	if err != nil || region.Canonicalize().String() != code || !region.IsCountry() {
		v.reportf("countryCode", "must be an ISO 3166-1 alpha-2 code in upper case, not %.20q", code)
	}
}

func (v *inspector) section(section Section) {
	v.required("name", section.Name, bySchema)
	v.names("questionTypes", section.QuestionTypes)
	v.names("skills", section.Skills)
}

func (v *inspector) names(field string, values []string) {
	for i, value := range values {
		v.at(field, i, func() { v.required("", value, bySchema) })
	}
}

func (v *inspector) links(field string, links []Link) {
	for i, link := range links {
		v.at(field, i, func() {
			v.required("title", link.Title, bySchema)
			v.link("url", link.URL, bySchema)
		})
	}
}

// freeForm checks JSON that is served unchanged. It refuses values that RFC 8785 cannot represent (a repeated name, a number
// beyond float64, half a surrogate pair): readers disagree about them, and they have no digest.
func (v *inspector) freeForm(raw json.RawMessage) bool {
	if len(raw) > maxFreeForm {
		v.reportf("", "must have at most %d bytes", maxFreeForm)
		return false
	}
	if _, err := jcs.Transform(raw); err != nil {
		v.reportf("", "is not unambiguous JSON: %s", strings.ToLower(err.Error()))
		return false
	}
	return v.freeFormText(raw)
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
