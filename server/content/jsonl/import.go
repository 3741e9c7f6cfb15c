package jsonl

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
	"examprep.dev/server/content"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
)

// Default limits of an import, in bytes of compact JSON. `kubectl apply` keeps a copy of an object in an annotation. Annotations can hold
// 256 KiB together, so 200 KiB leaves room for others.
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
	// Namespace is the metadata.namespace of all objects. If empty, objects have none, and kubectl or kustomize sets it.
	Namespace string
	// Seal writes each paper's verification, by By (default "examprep content import") at At (default: now).
	Seal bool
	By   string
	At   time.Time
	// ObjectBytes and PaperBytes are limits; 0 stands for the defaults.
	ObjectBytes int
	PaperBytes  int
}

// ImportReport lists the files of an import.
type ImportReport struct {
	Exams []ImportedExam `json:"exams"`
	// Removed are files of an earlier import, below the imported exams' folders, that are not part of this one.
	Removed []string `json:"removed,omitempty"`
	// Problems are the errors, with which nothing is written, and the warnings.
	Problems []content.Problem `json:"problems"`
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
	if err := content.WriteLines(w, r.Problems); err != nil {
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
	for _, field := range slices.Sorted(maps.Keys(r.Ignored)) {
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
// All problems of the input are returned as one *content.ProblemsError and in the report. Then nothing is written.
// Papers of kind "partial" or "pool" are named in an annotation (PaperKindsAnnotation), and the data set in a comment, because there is no
// field for them.
func Import(ctx context.Context, options ImportOptions) (ImportReport, error) {
	i := newImporter(options)
	if err := (content.DigestOptions{By: options.By}).Check(); err != nil {
		return i.report(), err
	}
	if err := i.read(ctx); err != nil {
		return i.report(), err
	}
	if len(i.problems) > 0 { // the rules would report missing values again
		return i.report(), content.AsError(content.SortProblems(i.problems))
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
	if err := content.AsError(content.SortProblems(i.problems)); err != nil {
		return i.report(), err
	}
	report.Problems = i.report().Problems
	removed, err := writeFiles(options.Out, objects)
	report.Removed = removed
	return report, err
}

// importer holds the input in memory, because answers are checked against a whole paper.
type importer struct {
	options  ImportOptions
	exams    []*importedExam
	papers   map[string]*importedPaper
	problems []content.Problem
	ignored  map[string]int
}

type importedExam struct {
	value  neutralExam
	at     syntax.Position
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
	at        syntax.Position
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
	return ImportReport{Exams: []ImportedExam{}, Problems: append([]content.Problem{}, content.SortProblems(i.problems)...), Ignored: i.ignored}
}

func (i *importer) file(name string) string { return filepath.Join(i.options.From, name) }

func (i *importer) reportf(at syntax.Position, field, format string, args ...any) {
	i.problems = append(i.problems, content.Problem{Position: at, Field: field, Detail: fmt.Sprintf(format, args...)})
}

// read reads the three files, in the order of their references.
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
	root, err := syntax.ParseNode(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return err // it was read a moment ago
	}
	known := make(map[string]bool)
	for n, exam := range exams {
		place := syntax.Locate(root, syntax.Path{}.At(n))
		at := syntax.Position{File: r.file, Line: place.Line, Column: place.Column}
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
		paper := &importedPaper{value: found.value, at: syntax.Position{File: r.file, Line: found.line}, source: sha256.New()}
		exam, id := exams[paper.value.ExamKey], paper.value.PaperID
		switch {
		case id == "":
			i.reportf(paper.at, "paper_id", "is required")
		case i.papers[id] != nil:
			i.reportf(paper.at, "paper_id", "paper %s is given already in line %d", id, i.papers[id].at.Line)
		case exam == nil:
			i.reportf(paper.at, "exam_key", "exam %q is not in exams.json", paper.value.ExamKey)
			i.papers[id] = paper // do not report its questions too
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
		at := syntax.Position{File: r.file, Line: found.line}
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
	a, err := assemble.Read(ctx, &v1alpha1.ExamContent{Spec: exam.spec}, nil) // no question is in a chunk yet
	if err != nil {
		i.reportf(exam.at, "", "%v", err)
		return false
	}
	found, err := a.Findings()
	if err != nil {
		i.reportf(exam.at, "", "%v", err)
		return false
	}
	for _, problem := range found.Problems {
		i.finding(exam, problem, content.SeverityError)
	}
	for _, warning := range found.Warnings {
		i.finding(exam, warning, content.SeverityWarning)
	}
	if found.Omitted > 0 {
		i.reportf(exam.at, "", "and %d more problems in exam %s", found.Omitted, exam.value.ExamKey)
	}
	if len(found.Problems) > 0 || !i.options.Seal {
		return len(found.Problems) == 0
	}
	for n := range a.Exam.Papers {
		digest, err := a.Exam.Papers[n].SealDigest()
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
func (i *importer) finding(exam *importedExam, problem catalog.Problem, severity content.Severity) {
	p := syntax.ParsePath(problem.Field)
	at := exam.at
	if len(p) > 1 && p[0].Key == "papers" {
		paper := exam.papers[p[1].Index]
		at, p = paper.at, p[2:]
		if len(p) > 1 && p[0].Key == "questions" {
			at, p = syntax.Position{File: i.file("questions.jsonl"), Line: paper.lines[p[1].Index]}, p[2:]
		}
	}
	i.problems = append(i.problems, content.Problem{
		Position: at, Field: neutralNames.Replace(p.String()), Detail: problem.Detail, Severity: severity,
	})
}

// kinds lists the papers that are not a whole sitting, as `paper_id=kind`.
func (e *importedExam) kinds() string {
	var kinds []string
	for _, paper := range e.papers {
		if kind := paper.value.Kind; kind != "" && kind != "sitting" {
			kinds = append(kinds, paper.value.PaperID+"="+kind)
		}
	}
	return strings.Join(slices.Sorted(slices.Values(kinds)), ",")
}
