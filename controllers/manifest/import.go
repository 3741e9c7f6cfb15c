package manifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// Default limits of an import, in bytes of compact JSON. `kubectl apply` keeps a copy of an object in one of its own
// annotations, which together may hold 256 KiB; 200 KiB leaves room for what others annotate.
const (
	DefaultObjectBytes = 200 << 10
	// DefaultPaperBytes is how much of an ExamContent one paper's questions may take before they go into ConfigMaps.
	DefaultPaperBytes = 100 << 10
)

// ImportOptions shape one Import.
type ImportOptions struct {
	// From is the folder that holds exams.json, papers.jsonl and questions.jsonl.
	From string
	// Out is the folder to write to; it is made when it is missing.
	Out string
	// Namespace stands in the metadata of what is written; empty: none, as kubectl's -n or kustomize set it.
	Namespace string
	// Seal writes each paper's verification, by By (default "examprep content import") at At (default: now).
	Seal bool
	By   string
	At   time.Time
	// ObjectBytes and PaperBytes are limits; 0 stands for the defaults.
	ObjectBytes int
	PaperBytes  int
}

// ImportReport tells what was written.
type ImportReport struct {
	Exams []ImportedExam `json:"exams"`
	// Removed are files of an earlier import, below the imported exams' folders, that are not part of this one.
	Removed []string `json:"removed,omitempty"`
	// Problems are the errors, with which nothing is written, and the warnings.
	Problems []Problem `json:"problems"`
	// Ignored counts fields of the input that the format does not know, by `file: field`.
	Ignored map[string]int `json:"ignored,omitempty"`
}

// ImportedExam is one ExamContent that was written.
type ImportedExam struct {
	ExamKey    string `json:"exam_key"`
	File       string `json:"file"`
	Papers     int    `json:"papers"`
	Questions  int    `json:"questions"`
	ConfigMaps int    `json:"config_maps"`
}

// WriteText prints one problem and one exam a line.
func (r ImportReport) WriteText(w io.Writer) error {
	if err := writeLines(w, r.Problems); err != nil {
		return err
	}
	for _, exam := range r.Exams {
		if _, err := fmt.Fprintf(w, "%s: %d papers, %d questions → %s and %d ConfigMaps\n",
			exam.ExamKey, exam.Papers, exam.Questions, exam.File, exam.ConfigMaps); err != nil {
			return err
		}
	}
	for _, file := range r.Removed {
		if _, err := fmt.Fprintf(w, "removed %s: not part of this import\n", file); err != nil {
			return err
		}
	}
	for _, field := range sortedKeys(r.Ignored) {
		if _, err := fmt.Fprintf(w, "ignored %s (%d times)\n", field, r.Ignored[field]); err != nil {
			return err
		}
	}
	return nil
}

// Import turns the neutral form of exams into one ExamContent for each exam, `<exam_key>.yaml`, and ConfigMaps
// `<exam_key>/<paper_id>-NN.yaml` for papers too big to be inline. The same input and options give the same bytes.
// A paper's provenance.sourceDigest is the SHA-256 of its lines of questions.jsonl, each with its line feed.
//
// All that is wrong in the input comes back as one *ProblemsError, by file, line and field, and in the report; nothing is written then.
// Papers of kind "partial" or "pool" are named in an annotation (PaperKindsAnnotation), for want of a field; the data
// set's name in a comment.
func Import(ctx context.Context, options ImportOptions) (ImportReport, error) {
	i := newImporter(options)
	if err := checkReviewer(options.By, ""); err != nil {
		return i.report(), err
	}
	if err := i.read(ctx); err != nil {
		return i.report(), err
	}
	if len(i.problems) > 0 { // the rules would only complain of what is missing
		return i.report(), problemsError(sortProblems(i.problems))
	}
	report := i.report()
	var objects []outFile
	for _, exam := range i.exams {
		if err := ctx.Err(); err != nil {
			return ImportReport{}, err
		}
		if !i.convert(ctx, exam) {
			continue
		}
		files, err := i.render(exam)
		if err != nil {
			return ImportReport{}, err
		}
		if len(files) == 0 {
			continue
		}
		objects = append(objects, files...)
		report.Exams = append(report.Exams, ImportedExam{
			ExamKey: exam.value.ExamKey, File: filepath.Join(options.Out, files[0].name),
			Papers: len(exam.papers), Questions: exam.questions(), ConfigMaps: len(files) - 1,
		})
	}
	if err := problemsError(sortProblems(i.problems)); err != nil {
		return i.report(), err
	}
	report.Problems = i.report().Problems
	removed, err := writeFiles(options.Out, objects)
	report.Removed = removed
	return report, err
}

// importer holds the input in memory: answers are checked against the whole of a paper.
type importer struct {
	options  ImportOptions
	exams    []*importedExam
	papers   map[string]*importedPaper
	problems []Problem
	ignored  map[string]int
}

type importedExam struct {
	value  neutralExam
	at     Position
	papers []*importedPaper
	spec   v1alpha1.ExamContentSpec
}

func (e *importedExam) questions() (n int) {
	for _, paper := range e.papers {
		n += len(paper.questions)
	}
	return n
}

type importedPaper struct {
	value     neutralPaper
	at        Position
	questions []v1alpha1.Question
	// lines are the questions' lines in the input.
	lines []int
	// source hashes the lines.
	source hash.Hash
}

func newImporter(options ImportOptions) *importer {
	if options.ObjectBytes == 0 {
		options.ObjectBytes = DefaultObjectBytes
	}
	if options.PaperBytes == 0 {
		options.PaperBytes = DefaultPaperBytes
	}
	if options.By == "" {
		options.By = "examprep content import"
	}
	if options.At.IsZero() {
		options.At = time.Now()
	}
	return &importer{options: options, papers: make(map[string]*importedPaper), ignored: make(map[string]int)}
}

// report is a report without any output.
func (i *importer) report() ImportReport {
	return ImportReport{Exams: []ImportedExam{}, Problems: append([]Problem{}, sortProblems(i.problems)...), Ignored: i.ignored}
}

func (i *importer) file(name string) string { return filepath.Join(i.options.From, name) }

func (i *importer) reportf(at Position, field, format string, args ...any) {
	i.problems = append(i.problems, Problem{Position: at, Field: field, Detail: fmt.Sprintf(format, args...)})
}

// read reads the three files, each after what it refers to.
func (i *importer) read(ctx context.Context) error {
	for _, step := range []func() error{i.readExams, i.readPapers, i.readQuestions} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	if len(i.problems) > 0 {
		return nil // what could not be read would be missed a second time
	}
	for _, exam := range i.exams {
		if len(exam.papers) == 0 {
			i.reportf(exam.at, "exam_key", "exam %s has no paper", exam.value.ExamKey)
		}
		for _, paper := range exam.papers {
			count := len(paper.questions)
			if want := paper.value.QuestionCount; want != nil && *want != count {
				i.reportf(paper.at, "question_count", "is %d, but questions.jsonl holds %d of paper %s", *want, count, paper.value.PaperID)
			} else if count == 0 {
				i.reportf(paper.at, "paper_id", "paper %s has no question", paper.value.PaperID)
			}
		}
	}
	return nil
}

func (i *importer) readExams() error {
	r := records[[]neutralExam]{file: i.file("exams.json")}
	text, err := os.ReadFile(r.file)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	exams, ok := r.decode(text, 0)
	finish(i, &r)
	if !ok {
		return nil
	}
	root, err := jsonNode(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return err // it was read a moment ago
	}
	known := make(map[string]bool)
	for n, exam := range exams {
		place := locate(root, path{}.at(n))
		at := Position{File: r.file, Line: place.Line, Column: place.Column}
		switch {
		case exam.ExamKey == "":
			i.reportf(at, "exam_key", "is required")
			continue
		case known[exam.ExamKey]:
			i.reportf(at, "exam_key", "exam %s is given twice", exam.ExamKey)
			continue
		}
		known[exam.ExamKey] = true
		i.exams = append(i.exams, &importedExam{value: exam, at: at})
	}
	return nil
}

func (i *importer) readPapers() error {
	r := records[neutralPaper]{file: i.file("papers.jsonl")}
	exams := make(map[string]*importedExam, len(i.exams))
	for _, exam := range i.exams {
		exams[exam.value.ExamKey] = exam
	}
	err := r.readLines(func(found record[neutralPaper]) {
		paper := &importedPaper{value: found.value, at: Position{File: r.file, Line: found.line}, source: sha256.New()}
		exam, id := exams[paper.value.ExamKey], paper.value.PaperID
		switch {
		case id == "":
			i.reportf(paper.at, "paper_id", "is required")
		case i.papers[id] != nil:
			i.reportf(paper.at, "paper_id", "paper %s is given already in line %d", id, i.papers[id].at.Line)
		case exam == nil:
			i.reportf(paper.at, "exam_key", "exam %q is not in exams.json", paper.value.ExamKey)
			i.papers[id] = paper // its questions are no second problem
		default:
			i.papers[id] = paper
			exam.papers = append(exam.papers, paper)
		}
	})
	finish(i, &r)
	return err
}

func (i *importer) readQuestions() error {
	r := records[neutralQuestion]{file: i.file("questions.jsonl")}
	err := r.readLines(func(found record[neutralQuestion]) {
		at := Position{File: r.file, Line: found.line}
		paper := i.papers[found.value.PaperID]
		if paper == nil {
			i.reportf(at, "paper_id", "paper %q is not in papers.jsonl", found.value.PaperID)
			return
		}
		question, err := found.value.question()
		if err != nil {
			i.reportf(at, "answer", "%v", err)
			return
		}
		paper.source.Write(found.raw)
		paper.source.Write([]byte{'\n'})
		paper.questions = append(paper.questions, question)
		paper.lines = append(paper.lines, found.line)
	})
	finish(i, &r)
	return err
}

func finish[T any](i *importer, r *records[T]) {
	i.problems = append(i.problems, r.problems...)
	maps.Copy(i.ignored, r.ignored)
}

// convert builds the resource with all questions inline, validates it as the operator would, and seals it. It returns
// false when something is wrong.
func (i *importer) convert(ctx context.Context, exam *importedExam) bool {
	exam.spec = exam.value.spec()
	for _, paper := range exam.papers {
		converted := paper.value.paper("sha256:" + hex.EncodeToString(paper.source.Sum(nil)))
		converted.Questions = paper.questions
		exam.spec.Papers = append(exam.spec.Papers, converted)
	}
	a := assembler{content: &v1alpha1.ExamContent{Spec: exam.spec}, warn: true}
	if err := a.run(ctx); err != nil { // without references nothing is read
		i.reportf(exam.at, "", "%v", err)
		return false
	}
	problems, omitted, err := a.findings()
	if err != nil {
		i.reportf(exam.at, "", "%v", err)
		return false
	}
	for _, problem := range problems {
		i.finding(exam, problem, SeverityError)
	}
	for _, warning := range a.warnings {
		i.finding(exam, warning, SeverityWarning)
	}
	if omitted > 0 {
		i.reportf(exam.at, "", "and %d more problems in exam %s", omitted, exam.value.ExamKey)
	}
	if len(problems) > 0 || !i.options.Seal {
		return len(problems) == 0
	}
	for n := range a.exam.Papers {
		digest, err := a.exam.Papers[n].SealDigest()
		if err != nil {
			i.reportf(exam.papers[n].at, "", "%v", err)
			return false
		}
		exam.spec.Papers[n].Verification = &v1alpha1.Verification{
			By: i.options.By, At: i.options.At.UTC().Format(time.RFC3339), Digest: digest.String(),
		}
	}
	return true
}

// neutralNames are the fields whose names differ between the resource and the neutral form.
var neutralNames = strings.NewReplacer("examKey", "exam_key", "paperID", "paper_id", "countryCode", "country_code",
	"durationMinutes", "duration_min", "sectionName", "section_name", "hasVisual", "has_visual", "sourceURL", "source_url",
	"questionTypes", "question_types", "officialSites", "official_sites", "pastQuestionsSources", "past_questions_sources")

// finding reports a problem of the catalogue's rules at the line that the value comes from.
func (i *importer) finding(exam *importedExam, problem catalog.Problem, severity Severity) {
	p := parsePath(problem.Field)
	at := exam.at
	if len(p) > 1 && p[0].key == "papers" {
		paper := exam.papers[p[1].index]
		at, p = paper.at, p[2:]
		if len(p) > 1 && p[0].key == "questions" {
			at, p = Position{File: i.file("questions.jsonl"), Line: paper.lines[p[1].index]}, p[2:]
		}
	}
	i.problems = append(i.problems, Problem{
		Position: at, Field: neutralNames.Replace(p.String()), Detail: problem.Detail, Severity: severity,
	})
}

// kinds lists the papers that are no whole sittings, `paper_id=kind`.
func (e *importedExam) kinds() string {
	var kinds []string
	for _, paper := range e.papers {
		if kind := paper.value.Kind; kind != "" && kind != "sitting" {
			kinds = append(kinds, paper.value.PaperID+"="+kind)
		}
	}
	return strings.Join(slices.Sorted(slices.Values(kinds)), ",")
}
