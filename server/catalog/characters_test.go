package catalog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit/check"
)

// Every control character but line feed and tab, U+007F to U+009F, U+FFFE and U+FFFF: YAML, kubectl or PostgreSQL change or refuse them.
func TestATextHoldsNoControlCharacter(t *testing.T) {
	t.Parallel()
	allowed := map[rune]bool{'\n': true, '\t': true, 0xa0: true, 0xfffd: true, 0x2028: true}
	for r := rune(0); r <= 0xffff; r++ {
		if r > 0xa0 && r < 0xfff0 && !allowed[r] {
			continue
		}
		exam := catalogtest.Clone(catalogtest.SampleExam())
		exam.Papers[0].Questions[0].Prompt = "before" + string(r) + "after"
		want := !allowed[r] && (r < ' ' || 0x7f <= r && r <= 0x9f || r >= 0xfffe)
		_, err := catalog.Validate(exam)
		if (err != nil) != want {
			t.Errorf("U+%04X: %v, want a problem: %t", r, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("papers[0].questions[0].prompt: must not contain U+%04X", r)) {
			t.Errorf("U+%04X: %v", r, err)
		}
	}
}

func TestNoTextOfAnExamIsExemptFromTheRuleForCharacters(t *testing.T) {
	t.Parallel()
	const bad = "a\u0092b"
	checkBreaches(t, []breach{
		{"name", func(e *catalog.Exam) { e.Name = bad }},
		{"category", func(e *catalog.Exam) { e.Category = bad }},
		{"country", func(e *catalog.Exam) { e.Country = bad }},
		{"sections[0].name", func(e *catalog.Exam) { e.Sections = []catalog.Section{{Name: bad}} }},
		{"sections[0].skills[0]", func(e *catalog.Exam) { e.Sections = []catalog.Section{{Name: "a", Skills: []string{bad}}} }},
		{"scoring.note", func(e *catalog.Exam) { e.Scoring = json.RawMessage(`{"note": "` + bad + `"}`) }},
		{"studyPath.steps[0].title", func(e *catalog.Exam) {
			e.StudyPath.Steps = []json.RawMessage{[]byte(`{"title": "a\u0092b"}`)}
		}},
		{"resources.officialSites[0].title", func(e *catalog.Exam) {
			e.Resources.OfficialSites = []catalog.Link{{Title: bad, URL: "https://example.org"}}
		}},
		{"resources.officialSites[0].url", func(e *catalog.Exam) {
			e.Resources.OfficialSites = []catalog.Link{{Title: "a", URL: "https://example.org/" + bad}}
		}},
		{"papers[0].title", func(e *catalog.Exam) { e.Papers[0].Title = bad }},
		{"papers[0].subject", func(e *catalog.Exam) { e.Papers[0].Subject = bad }},
		{"papers[0].provenance.license", func(e *catalog.Exam) { e.Papers[0].Provenance.License = bad }},
		{"papers[0].questions[0].sectionName", func(e *catalog.Exam) { e.Papers[0].Questions[0].SectionName = bad }},
		{"papers[0].questions[0].options.A", func(e *catalog.Exam) { e.Papers[0].Questions[0].Options["A"] = bad }},
		{"papers[0].questions[0].explanation", func(e *catalog.Exam) { e.Papers[0].Questions[0].Explanation = bad }},
		{"papers[0].questions[0].topic", func(e *catalog.Exam) { e.Papers[0].Questions[0].Topic = bad }},
	})
}

func TestAForbiddenCharacterComesWithItsUsualCause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\frac{1}{2}":         "U+000C, which a backslash and the letter f make in a quoted text: write two backslashes for LaTeX",
		"x \beta":             "U+0008, which a backslash and the letter b make",
		"\rho":                "U+000D, which a backslash and the letter r make",
		"\alpha":              "U+0007, which a backslash and the letter a make",
		"\vec{x}":             "U+000B, which a backslash and the letter v make",
		"don\u0092t":          "U+0092, which is ’ in Windows-1252: convert the text",
		"a\r":                 "U+000D, a carriage return without a line feed",
		"unknown cause: \x00": "U+0000",
	} {
		exam := catalogtest.Clone(catalogtest.SampleExam())
		exam.Papers[0].Questions[0].Prompt = text
		var invalid *catalog.ValidationError
		if _, err := catalog.Validate(exam); !errors.As(err, &invalid) || !strings.Contains(invalid.Problems[0].Detail, want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestInspectWarnsOfLaTeXThatLostABackslash(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2 \times 3":                       `holds U+0009 before "imes": if \times is meant, write two backslashes`,
		"\theta":                           "\"heta\"",
		"\text{if}":                        "\"ext{\"",
		"\tan x":                           "\"an\"",
		"\tau":                             "\"au\"",
		"$\nu$":                            "\"u$\"",
		"a \neq b":                         "\"eq\"",
		"one\ntwo, \tand, \nuclear\nequal": "",
		"\u2029i":                          "\"i\"",
	} {
		exam := catalogtest.Clone(catalogtest.SampleExam())
		exam.Papers[0].Questions[0].Explanation = text
		warnings, err := catalog.Inspect(exam)
		check.NoError(t, err)
		switch {
		case want == "" && len(warnings) > 0:
			t.Errorf("%q: %v", text, warnings)
		case want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].Detail, want) || warnings[0].Field != "papers[0].questions[0].explanation"):
			t.Errorf("%q: %v, want %s", text, warnings, want)
		}
	}
}
