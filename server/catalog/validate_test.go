package catalog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAnyGeneratedExamIsValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, err := catalog.Validate(catalogtest.AnyExam("xx-exam").Draw(t, "exam"))
		check.NoError(t, err)
	})
	_ = catalogtest.Valid(t, catalogtest.SampleExam())
}

func TestWhatIsInvalidIsNotPublished(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	exam.Papers[0].Provenance.License = ""
	invalid, err := catalog.Validate(exam)
	if _, ok := errors.AsType[*catalog.ValidationError](err); !ok {
		t.Fatalf("got %v, want a ValidationError", err)
	}
	for name, err := range map[string]error{
		"publish":  second(b.publisher.Publish(t.Context(), owner, invalid, catalog.Options{})),
		"diff":     second(b.publisher.Diff(t.Context(), invalid)),
		"identify": second(catalog.Identify(invalid)),
	} {
		if !errors.Is(err, catalog.ErrNotValidated) {
			t.Errorf("%s: got %v, want ErrNotValidated", name, err)
		}
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exams"); n != 0 {
		t.Error("the exam was written")
	}
}

// breach is one change that breaks one rule, and the field that is named.
type breach struct {
	field  string
	change func(*catalog.Exam)
}

func checkBreaches(t *testing.T, breaches []breach) {
	t.Helper()
	for _, test := range breaches {
		exam := catalogtest.Clone(catalogtest.SampleExam())
		test.change(&exam)
		var invalid *catalog.ValidationError
		if _, err := catalog.Validate(exam); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want a ValidationError", test.field, err)
			continue
		}
		if len(invalid.Problems) != 1 || invalid.Problems[0].Field != test.field {
			t.Errorf("problems = %v, want one of %s", invalid.Problems, test.field)
		}
		if strings.Contains(invalid.Problems[0].Detail, "%!") {
			t.Errorf("%s: detail = %q", test.field, invalid.Problems[0].Detail)
		}
	}
}

func TestEachRuleOfAnExamNamesItsField(t *testing.T) {
	t.Parallel()
	longObject := fmt.Appendf(nil, `{"a":"%s"}`, strings.Repeat("a", 64<<10))
	checkBreaches(t, []breach{
		{"examKey", func(e *catalog.Exam) { e.Key = "" }},
		{"examKey", func(e *catalog.Exam) { e.Key = "Es-Mir" }},
		{"examKey", func(e *catalog.Exam) { e.Key = "es--mir" }},
		{"examKey", func(e *catalog.Exam) { e.Key = "es/mir" }},
		{"examKey", func(e *catalog.Exam) { e.Key = strings.Repeat("a", 101) }},
		{"name", func(e *catalog.Exam) { e.Name = " " }},
		{"name", func(e *catalog.Exam) { e.Name = "a\xff" }},
		{"category", func(e *catalog.Exam) { e.Category = "a\x00" }},
		{"country", func(e *catalog.Exam) { e.Country = "a\ufffe" }},
		{"countryCode", func(e *catalog.Exam) { e.CountryCode = "es" }},
		{"countryCode", func(e *catalog.Exam) { e.CountryCode = "UK" }},
		{"countryCode", func(e *catalog.Exam) { e.CountryCode = "ZZ" }},
		{"countryCode", func(e *catalog.Exam) { e.CountryCode = "ESP" }},
		{"countryCode", func(e *catalog.Exam) { e.CountryCode = "419" }},
		{"sections[0].name", func(e *catalog.Exam) { e.Sections = []catalog.Section{{}} }},
		{"sections[0].skills[1]", func(e *catalog.Exam) { e.Sections = []catalog.Section{{Name: "a", Skills: []string{"b", ""}}} }},
		{"scoring", func(e *catalog.Exam) { e.Scoring = json.RawMessage(`[]`) }},
		{"resources.officialSites[0].url", func(e *catalog.Exam) {
			e.Resources.OfficialSites = []catalog.Link{{Title: "a", URL: "ftp://example.org"}}
		}},
		{"resources.pastQuestionsSources[0].title", func(e *catalog.Exam) { e.Resources.PastQuestionsSources = []catalog.Link{{URL: "https://example.org"}} }},
		{"studyPath.steps[0]", func(e *catalog.Exam) { e.StudyPath.Steps = []json.RawMessage{[]byte(`{"a":1,"a":2}`)} }},
		{"studyPath.steps[0]", func(e *catalog.Exam) { e.StudyPath.Steps = []json.RawMessage{longObject} }},
		{"scoring", func(e *catalog.Exam) { e.Scoring = longObject }},
		{"papers[1].paperID", func(e *catalog.Exam) { e.Papers = append(e.Papers, e.Papers[0]) }},
	})
}

func TestEachRuleOfAPaperNamesItsField(t *testing.T) {
	t.Parallel()
	paper := func(change func(*catalog.Paper)) func(*catalog.Exam) {
		return func(e *catalog.Exam) { change(&e.Papers[0]) }
	}
	checkBreaches(t, []breach{
		{"papers[0].paperID", paper(func(p *catalog.Paper) { p.ID = "short" })},
		{"papers[0].paperID", paper(func(p *catalog.Paper) { p.ID = strings.Repeat("a", 161) })},
		{"papers[0].paperID", paper(func(p *catalog.Paper) { p.ID = "with space" })},
		{"papers[0].title", paper(func(p *catalog.Paper) { p.Title = "\xff" })},
		{"papers[0].year", paper(func(p *catalog.Paper) { p.Year = 0 })},
		{"papers[0].language", paper(func(p *catalog.Paper) { p.Language = "english language" })},
		{"papers[0].marking.correct", paper(func(p *catalog.Paper) { p.Marking = &catalog.Marking{Correct: 1.0000001} })},
		{"papers[0].marking.incorrect", paper(func(p *catalog.Paper) { p.Marking = &catalog.Marking{Correct: 1, Incorrect: -0.3333333} })},
		{"papers[0].marking.unanswered", paper(func(p *catalog.Paper) { p.Marking = &catalog.Marking{Correct: 1, Unanswered: 0.0000001} })},
		{"papers[0].provenance.publisher", paper(func(p *catalog.Paper) { p.Provenance.Publisher = "" })},
		{"papers[0].provenance.sourceURL", paper(func(p *catalog.Paper) { p.Provenance.SourceURL = "" })},
		{"papers[0].provenance.sourceURL", paper(func(p *catalog.Paper) { p.Provenance.SourceURL = "https://" })},
		{"papers[0].provenance.sourceURL", paper(func(p *catalog.Paper) { p.Provenance.SourceURL = "https://u:p@example.org/" })},
		{"papers[0].provenance.license", paper(func(p *catalog.Paper) { p.Provenance.License = "" })},
		{"papers[0].provenance.sourceDigest", paper(func(p *catalog.Paper) { p.Provenance.SourceDigest = "md5:1" })},
		{"papers[0].verification.by", paper(func(p *catalog.Paper) {
			p.Verification = &catalog.Verification{At: "2026-01-31", Digest: catalog.Digest{}.String()}
		})},
		{"papers[0].verification.by", paper(func(p *catalog.Paper) {
			p.Verification = &catalog.Verification{By: strings.Repeat("a", 201), At: "2026-01-31", Digest: catalog.Digest{}.String()}
		})},
		{"papers[0].verification.at", paper(func(p *catalog.Paper) {
			p.Verification = &catalog.Verification{By: "a", At: "31.1.", Digest: catalog.Digest{}.String()}
		})},
		{"papers[0].verification.digest", paper(func(p *catalog.Paper) { p.Verification = &catalog.Verification{By: "a", At: "2026-01-31T10:00:00Z"} })},
		{"papers[0].questions", paper(func(p *catalog.Paper) { p.Questions = nil })},
		{"papers[0].questions", paper(func(p *catalog.Paper) {
			question := p.Questions[0]
			p.Questions = nil
			for number := range 10_001 {
				question.Number = number + 1
				p.Questions = append(p.Questions, question)
			}
		})},
	})
}

// lettersUpTo returns the options from A to a letter.
func lettersUpTo(last rune) map[string]string {
	options := make(map[string]string)
	for letter := 'A'; letter <= last; letter++ {
		options[string(letter)] = "text"
	}
	return options
}

func TestEachRuleOfAQuestionNamesItsField(t *testing.T) {
	t.Parallel()
	question := func(i int, change func(*catalog.Question)) func(*catalog.Exam) {
		return func(e *catalog.Exam) { change(&e.Papers[0].Questions[i]) }
	}
	checkBreaches(t, []breach{
		{"papers[0].questions[1].number", question(1, func(q *catalog.Question) { q.Number = 1 })},
		{"papers[0].questions[0].section", question(0, func(q *catalog.Question) { q.Section = 0 })},
		{"papers[0].questions[0].number", question(0, func(q *catalog.Question) { q.Number = -1 })},
		{"papers[0].questions[0].section", question(0, func(q *catalog.Question) { q.Section = 10_001 })},
		{"papers[0].questions[0].number", question(0, func(q *catalog.Question) { q.Number = 100_001 })},
		{"papers[0].questions[0].page", question(0, func(q *catalog.Question) { q.Page = 1_000_001 })},
		{"papers[0].questions[0].options", question(0, func(q *catalog.Question) { q.Options = lettersUpTo('L') })},
		{"papers[0].questions[1].answer.choices", question(1, func(q *catalog.Question) {
			q.Options = lettersUpTo('K')
			q.Answer.Choices = strings.Split("ABCDEFGHI", "")
		})},
		{"papers[0].questions[0].prompt", question(0, func(q *catalog.Question) { q.Prompt = "\n " })},
		{"papers[0].questions[0].options", question(0, func(q *catalog.Question) { q.Options = map[string]string{"A": "a", "B": "b", "c": "c"} })},
		{"papers[0].questions[0].options", question(0, func(q *catalog.Question) { q.Options = map[string]string{"B": "b"} })},
		{"papers[0].questions[0].options.C", question(0, func(q *catalog.Question) { q.Options["C"] = "" })},
		{"papers[0].questions[0].answer", question(0, func(q *catalog.Question) { q.Answer = catalog.Answer{} })},
		{"papers[0].questions[0].answer", question(0, func(q *catalog.Question) { q.Answer.Kind = "guess" })},
		{"papers[0].questions[0].answer.choice", question(0, func(q *catalog.Question) { q.Answer.Choices = []string{"D"} })},
		{"papers[0].questions[0].answer.choice", question(0, func(q *catalog.Question) { q.Answer.Choices = []string{"A", "B"} })},
		{"papers[0].questions[1].answer.choices", question(1, func(q *catalog.Question) { q.Answer.Choices = nil })},
		{"papers[0].questions[1].answer.choices", question(1, func(q *catalog.Question) { q.Answer.Choices = []string{"A", "A"} })},
		{"papers[0].questions[1].answer.choices", question(1, func(q *catalog.Question) { q.Answer.Choices = []string{"A", "Z"} })},
		{"papers[0].questions[2].answer.number", question(2, func(q *catalog.Question) { q.Answer.Number = math.NaN() })},
		{"papers[0].questions[2].answer.tolerance", question(2, func(q *catalog.Question) { q.Answer.Tolerance = -1 })},
		{"papers[0].questions[2].answer.number", question(2, func(q *catalog.Question) { q.Options = map[string]string{"A": "a", "B": "b"} })},
		{"papers[0].questions[3].answer.text", question(3, func(q *catalog.Question) { q.Answer.Text = "" })},
		{"papers[0].questions[0].explanation", question(0, func(q *catalog.Question) { q.Explanation = "\xff" })},
		{"papers[0].questions[0].page", question(0, func(q *catalog.Question) { q.Page = -1 })},
		{"papers[0].questions[0].topic", question(0, func(q *catalog.Question) { q.Topic = "\x00" })},
	})
}

func TestAllProblemsAreToldUpToABound(t *testing.T) {
	t.Parallel()
	exam := catalogtest.Clone(catalogtest.SampleExam())
	exam.Name = ""
	exam.Papers[0].Questions[0].Prompt = ""
	exam.Papers[0].Questions[3].Answer.Text = ""
	var invalid *catalog.ValidationError
	if _, err := catalog.Validate(exam); !errors.As(err, &invalid) || len(invalid.Problems) != 3 || invalid.Omitted != 0 {
		t.Fatalf("got %v, want three problems", err)
	}
	exam.Papers[0].Questions = make([]catalog.Question, 500)
	if _, err := catalog.Validate(exam); !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if len(invalid.Problems) != catalog.MaxProblems || invalid.Omitted == 0 {
		t.Errorf("%d problems and %d omitted, want %d and more", len(invalid.Problems), invalid.Omitted, catalog.MaxProblems)
	}
	if len(invalid.Error()) > 1000 {
		t.Errorf("the message has %d bytes", len(invalid.Error()))
	}
}

func TestAFigureMayStandForAnOption(t *testing.T) {
	t.Parallel()
	exam := catalogtest.Clone(catalogtest.SampleExam())
	exam.Papers[0].Questions[1].Options["C"] = ""
	if _, err := catalog.Validate(exam); err != nil {
		t.Error(err)
	}
}
