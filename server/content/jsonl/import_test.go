package jsonl

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	oneExam     = `[{"exam_key": "a-b", "kind": "pool", "name": "A", "category": null, "country_code": "ES", "duration_min": null, "sections": [{"name": "S", "questions": null}], "scoring": {}, "study_path": null, "remark": 1}]`
	onePaper    = `{"exam_key": "a-b", "paper_id": "a-b-2013", "title": "P", "year": 2013, "kind": "partial", "marking": {"correct": 3, "incorrect": -1, "unanswered": 0}, "language": "es", "provenance": {"publisher": "p", "source_url": "https://example.com", "license": "MIT", "dataset": "D", "retrieved_from": "here"}, "question_count": 2}`
	oneQuestion = `{"paper_id": "a-b-2013", "section": 1, "section_name": null, "number": %d, "prompt": "p", "options": {"A": "a", "B": "b"}, "answer": {"kind": "choice", "value": "A"}, "explanation": null, "page": null, "has_visual": false, "topic": null}`
)

func twoQuestions() string {
	return fmt.Sprintf(oneQuestion+"\n"+oneQuestion+"\n", 1, 2)
}

func neutralFolder(t *testing.T, exams, papers, questions string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"exams.json": exams, "papers.jsonl": papers, "questions.jsonl": questions} {
		testkit.WriteFile(t, filepath.Join(folder, name), []byte(text))
	}
	return folder
}

func TestImportNamesFileLineAndField(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, new, want string }{
		"broken JSON":        {`"prompt": "p"`, `"prompt": "p`, `questions.jsonl:1:89: invalid character 'o' after object key:value pair`},
		"wrong type":         {`"number": 2`, `"number": "2"`, "questions.jsonl:2:62: number: must be a whole number, is a text"},
		"unknown kind":       {`"kind": "choice"`, `"kind": "choise"`, `questions.jsonl:1: answer: unknown kind "choise": known are choice, choices, numeric, text, annulled and unmarkable`},
		"wrong value":        {`"value": "A"`, `"value": ["A"]`, `questions.jsonl:1: answer: a choice answer cannot be ["A"]`},
		"no value":           {`, "value": "A"`, ``, `questions.jsonl:1: answer: a choice answer needs a value`},
		"unknown paper":      {`"paper_id": "a-b-2013", "section"`, `"paper_id": "a-b-2014", "section"`, `questions.jsonl:1: paper_id: paper "a-b-2014" is not in papers.jsonl`},
		"unknown exam":       {`"exam_key": "a-b", "paper_id"`, `"exam_key": "a-c", "paper_id"`, `papers.jsonl:1: exam_key: exam "a-c" is not in exams.json`},
		"exam twice":         {`"remark": 1}`, `"remark": 1}, {"exam_key": "a-b"}`, `exams.json:1:210: exam_key: exam a-b is given twice`},
		"count":              {`"question_count": 2`, `"question_count": 3`, `papers.jsonl:1: question_count: is 3, but questions.jsonl holds 2 of paper a-b-2013`},
		"letter not offered": {`"value": "A"`, `"value": "C"`, `questions.jsonl:1: answer.choice: "C" is not among the options`},
		"question twice":     {`"number": 2`, `"number": 1`, `questions.jsonl:2: number: section 1 has a question 1 already: questions[0]`},
		"no licence":         {`"license": "MIT"`, `"license": ""`, `papers.jsonl:1: provenance.license: is required`},
		"LaTeX":              {`"prompt": "p"`, `"prompt": "\frac{1}{2}"`, `questions.jsonl:1: prompt: must not contain U+000C, which a backslash and the letter f make in a quoted text: write two backslashes for LaTeX`},
		"Windows-1252":       {`"prompt": "p"`, "\"prompt\": \"don\u0092t\"", `questions.jsonl:1: prompt: must not contain U+0092, which is ’ in Windows-1252: convert the text from Windows-1252 to UTF-8`},
		"U+007F":             {`"A": "a"`, "\"A\": \"a\u007f\"", `questions.jsonl:1: options.A: must not contain U+007F`},
		"U+FFFF":             {`"title": "P"`, "\"title\": \"P\uffff\"", `papers.jsonl:1: title: must not contain U+FFFF`},
		"country":            {`"country_code": "ES"`, `"country_code": "es"`, `exams.json:1:2: country_code: must be an ISO 3166-1 alpha-2 code in upper case, not "es"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replace := func(text string) string { return strings.Replace(text, test.old, test.new, 1) }
			from := neutralFolder(t, replace(oneExam), replace(onePaper)+"\n", replace(twoQuestions()))
			out := filepath.Join(t.TempDir(), "out")
			_, err := Import(t.Context(), importer.Options{From: from, Out: out})
			var invalid *content.ProblemsError
			if !errors.As(err, &invalid) {
				t.Fatalf("want a *content.ProblemsError, have %v", err)
			}
			var have []string
			for _, problem := range invalid.Problems {
				have = append(have, strings.TrimPrefix(problem.String(), from+string(filepath.Separator)))
			}
			if !slices.Contains(have, test.want) {
				t.Errorf("have %s\nwant %s", strings.Join(have, "\n"), test.want)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

func TestImportKeepsWhatHasNoField(t *testing.T) {
	t.Parallel()
	from, out := neutralFolder(t, oneExam, onePaper, twoQuestions()), t.TempDir()
	report := importSet(t, importer.Options{From: from, Out: out, Seal: true, By: "Ann"})
	text := readFolder(t, out)["a-b.yaml"]
	for _, want := range []string{
		"examprep.dev/paper-kinds: \"a-b-2013=partial\"", "# Data set: D, taken from here\n",
		"by: Ann\n", `at: "2026-03-01T12:00:00Z"`, "incorrect: -1\n", "countryCode: ES\n",
		"sourceDigest: " + `"` + assemble.ChunkDigest([]byte(twoQuestions())) + `"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if ignored := filepath.Join(from, "exams.json") + ": remark"; len(report.Ignored) != 1 || report.Ignored[ignored] != 1 {
		t.Errorf("ignored: %v", report.Ignored)
	}
}

func TestImportChunksTheBiggestPapersAndRemovesStaleChunks(t *testing.T) {
	t.Parallel()
	var papers, questions strings.Builder
	for _, paper := range []struct {
		id    string
		count int
	}{{"a-b-small", 3}, {"a-b-large", 40}, {"a-b-medium", 20}} {
		papers.WriteString(strings.NewReplacer("a-b-2013", paper.id, `"question_count": 2`, fmt.Sprintf(`"question_count": %d`, paper.count)).Replace(onePaper) + "\n")
		for n := range paper.count {
			questions.WriteString(strings.Replace(fmt.Sprintf(oneQuestion, n+1), "a-b-2013", paper.id, 1) + "\n")
		}
	}
	from, out := neutralFolder(t, oneExam, papers.String(), questions.String()), t.TempDir()
	importSet(t, importer.Options{From: from, Out: out, ObjectBytes: 3300, Seal: true})
	small := slices.Sorted(maps.Keys(readFolder(t, out)))
	if !slices.Contains(small, "a-b/a-b-large-02.yaml") || !slices.Contains(small, "a-b/a-b-medium-01.yaml") ||
		slices.Contains(small, "a-b/a-b-small-01.yaml") {
		t.Errorf("have %v", small)
	}
	if _, err := content.Lint(t.Context(), load(t, out), content.LintOptions{}); err != nil {
		t.Error(err)
	}
	kept := filepath.Join(out, "a-b", "mine.yaml")
	testkit.WriteFile(t, kept, []byte("a: 1\n"))
	report := importSet(t, importer.Options{From: from, Out: out})
	check.Slices(t, slices.Sorted(maps.Keys(readFolder(t, out))), []string{"a-b.yaml", "a-b/mine.yaml"}, "files")
	check.Equal(t, len(report.Removed), len(small)-1, "removed %v of %v", report.Removed, small)
}

func TestImportRefusesAQuestionThatNoObjectCanHold(t *testing.T) {
	t.Parallel()
	huge := strings.Replace(twoQuestions(), `"prompt": "p"`, `"prompt": "`+strings.Repeat("p", 5000)+`"`, 1)
	_, err := Import(t.Context(), importer.Options{From: neutralFolder(t, oneExam, onePaper, huge), Out: t.TempDir(), ObjectBytes: 4096})
	var invalid *content.ProblemsError
	if !errors.As(err, &invalid) || !strings.Contains(invalid.Problems[0].String(), "questions.jsonl:1: the question alone is bigger") {
		t.Errorf("have %v", err)
	}
}

var problemPlace = regexp.MustCompile(`^f:\d+(:\d+)?: `)

func FuzzReadLines(f *testing.F) {
	f.Add(fmt.Sprintf(oneQuestion, 1))
	f.Add("{}\n[]\nnull\n\"\\ud800\"\n{\"number\": 1e999}\n\xff\n")
	f.Add("\ufeff{\"answer\": {\"kind\": \"numeric\", \"value\": 1}}\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := records[neutralQuestion]{file: "f"}
		lines := 0
		err := r.scan(t.Context(), strings.NewReader(text), func(found record[neutralQuestion]) {
			lines++
			question, err := found.value.question()
			spec := v1alpha1.ExamContentSpec{Papers: []v1alpha1.Paper{{Questions: []v1alpha1.Question{question}}}}
			read, failure := assemble.Read(t.Context(), &v1alpha1.ExamContent{Spec: spec}, nil)
			check.NoError(t, failure)
			if kind := found.value.Answer.Kind; err == nil && len(read.Problems) > 0 && kind != "text" && !strings.HasPrefix(kind, "choice") &&
				!strings.HasPrefix(read.Problems[0].Detail, "tolerance") {
				t.Fatalf("an answer that is none passed: %+v: %v", question.Answer, read.Problems)
			}
		})
		check.NoError(t, err)
		for _, problem := range r.problems {
			if !problemPlace.MatchString(problem.String()) {
				t.Fatalf("a problem without a place: %s", problem)
			}
		}
		if total := strings.Count(text, "\n") + 1; lines > total {
			t.Fatalf("%d records in %d lines", lines, total)
		}
	})
}

func TestImportReportsEveryProblemAndWarning(t *testing.T) {
	t.Parallel()
	var questions strings.Builder
	for number := range 12 {
		questions.WriteString(strings.Replace(fmt.Sprintf(oneQuestion, number+1), `"A", `, "", 1))
		questions.WriteString("\n")
	}
	wrong := strings.ReplaceAll(questions.String(), `"value": "A"`, `"value": ["A"]`)
	from := neutralFolder(t, oneExam, onePaper+"\n", wrong)
	report, err := Import(t.Context(), importer.Options{From: from, Out: t.TempDir()})
	var refused *content.ProblemsError
	if !errors.As(err, &refused) || len(report.Problems) != 12 {
		t.Fatalf("%v, %d problems in the report, want 12", err, len(report.Problems))
	}
	var text strings.Builder
	check.NoError(t, report.WriteText(&text))
	check.Equal(t, strings.Count(text.String(), ": answer: "), 12, "lines in %s", text.String())

	from = neutralFolder(t, strings.Replace(oneExam, `"scoring": {}`, `"scoring": {"max_score": "ten"}`, 1), onePaper+"\n",
		strings.Replace(twoQuestions(), `"prompt": "p"`, `"prompt": "2 \times 3"`, 1))
	report, err = Import(t.Context(), importer.Options{From: from, Out: t.TempDir()})
	check.NoError(t, err)
	if len(report.Problems) != 2 || report.Problems[0].Severity != content.SeverityWarning || report.Problems[1].Line != 1 {
		t.Errorf("have %v, want two warnings", report.Problems)
	}
}

// The limits of the schema and the rules of the catalogue are checked together, and a field is reported once.
func TestImportReportsProblemsOfSchemaAndCatalogueTogether(t *testing.T) {
	t.Parallel()
	from := neutralFolder(t, strings.Replace(oneExam, `"duration_min": null`, `"duration_min": -1`, 1),
		strings.NewReplacer(`"correct": 3`, `"correct": 0`, `"license": "MIT"`, `"license": ""`).Replace(onePaper)+"\n",
		strings.Replace(twoQuestions(), `"value": "A"`, `"value": "C"`, 1))
	report, err := Import(t.Context(), importer.Options{From: from, Out: t.TempDir()})
	if _, ok := errors.AsType[*content.ProblemsError](err); !ok {
		t.Fatalf("want a *ProblemsError, have %v", err)
	}
	var have []string
	for _, problem := range report.Problems {
		have = append(have, filepath.Base(problem.File)+" "+problem.Field)
	}
	check.Slices(t, have, []string{
		"exams.json duration_min", "papers.jsonl marking.correct", "papers.jsonl provenance.license", "questions.jsonl answer.choice",
	}, "problems")
}

// A byte order mark does not belong to the text of a file.
func TestImportReadsFilesWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	const mark = "\ufeff"
	digests := make([]string, 0, 2)
	for _, mark := range []string{"", mark} {
		out := t.TempDir()
		report, err := Import(t.Context(), importer.Options{From: neutralFolder(t, mark+oneExam, mark+onePaper+"\n", mark+twoQuestions()), Out: out})
		check.NoError(t, err)
		digests = append(digests, string(testkit.ReadFile(t, report.Exams[0].File)))
	}
	check.Equal(t, digests[1], digests[0], "what is written")
}
