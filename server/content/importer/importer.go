package importer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/syntax"
)

// Default limits of an import, in bytes of compact JSON. `kubectl apply` keeps a copy of an object in an annotation. Annotations can hold
// 256 KiB together, so 200 KiB leaves room for others.
const (
	DefaultObjectBytes = 200 << 10
	// DefaultPaperBytes is how much of an ExamContent one paper's questions may take before they go into ConfigMaps.
	DefaultPaperBytes = 100 << 10
)

// Options shape one Import.
type Options struct {
	// From is the folder or file to read.
	From string
	// Out is the folder to write to. It is created if it does not exist.
	Out string
	// Namespace is the metadata.namespace of all objects. If empty, objects have none, and kubectl or kustomize sets it.
	Namespace string
	// Seal writes each paper's verification, by By (default "examprep content import") at At, a date or an RFC 3339 time (default: now).
	Seal bool
	By   string
	At   string
	// ObjectBytes and PaperBytes are limits; 0 stands for the defaults.
	ObjectBytes int
	PaperBytes  int
}

// Input is what a format's package has read.
type Input struct {
	Exams []Exam
	// Problems are all problems of the input's form. With an error among them, the exams can be incomplete.
	Problems []content.Problem
	// Ignored counts what the format does not know, by `file: name`.
	Ignored map[string]int
	// Place returns the position of a value and its name in the format. The path is that below the spec of the exam with this index.
	Place func(exam int, path syntax.Path) (syntax.Position, string)
}

// Exam is one exam of an input.
type Exam struct {
	// Spec has all questions inline.
	Spec v1alpha1.ExamContentSpec
	// Kinds are the kinds of papers that are not a whole sitting, by their IDs.
	Kinds map[string]string
	// Comments are written above the provenance of the papers, by index.
	Comments map[int]string
}

// Report lists the files of an import.
type Report struct {
	Exams []Imported `json:"exams"`
	// Removed are files of an earlier import, below the imported exams' folders, that are not part of this one.
	Removed []string `json:"removed,omitempty"`
	// Problems are the errors, with which nothing is written, and the warnings.
	Problems []content.Problem `json:"problems"`
	// Ignored counts what the format does not know, by `file: name`.
	Ignored map[string]int `json:"ignored,omitempty"`
}

// Imported is one ExamContent that was written.
type Imported struct {
	ExamKey    string `json:"exam_key"`
	File       string `json:"file"`
	Papers     int    `json:"papers"`
	Questions  int    `json:"questions"`
	ConfigMaps int    `json:"config_maps"`
}

// WriteText prints one problem and one exam a line.
func (r Report) WriteText(w io.Writer) error {
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

// Import reads exams by read and writes one ExamContent for each, `<examKey>.yaml`, and ConfigMaps `<examKey>/<paperID>-NN.yaml` for papers
// too large to be inline. The same input and options give the same bytes.
//
// All problems are returned as one *content.ProblemsError and in the report. With one, and when ctx ends, Import writes nothing. Papers of
// Kinds are named in an annotation (PaperKindsAnnotation), because there is no field for them.
func Import(ctx context.Context, options Options, read func(context.Context) (*Input, error)) (Report, error) {
	i := &importer{options: withDefaults(options)}
	if err := (content.DigestOptions{By: options.By, At: options.At}).Check(); err != nil {
		return i.report(nil), err
	}
	input, err := read(ctx)
	if err != nil {
		return i.report(nil), err
	}
	i.input, i.problems = input, input.Problems
	if err := content.AsError(content.SortProblems(i.problems)); err != nil { // the rules would report missing values again
		return i.report(nil), err
	}
	steps := progress.From(ctx)
	steps.Start("checking", int64(i.questions()), progress.Questions)
	for n := range input.Exams {
		if err := ctx.Err(); err != nil {
			return i.report(nil), err
		}
		if err := i.check(ctx, n); err != nil {
			return i.report(nil), err
		}
		steps.Add(int64(countQuestions(input.Exams[n])))
	}
	if err := content.AsError(content.SortProblems(i.problems)); err != nil {
		return i.report(nil), err
	}
	return i.write(ctx)
}

type importer struct {
	options  Options
	input    *Input
	problems []content.Problem
	stage    *staging
}

func withDefaults(options Options) Options {
	if options.ObjectBytes == 0 {
		options.ObjectBytes = DefaultObjectBytes
	}
	if options.PaperBytes == 0 {
		options.PaperBytes = DefaultPaperBytes
	}
	if options.By == "" {
		options.By = "examprep content import"
	}
	if options.At == "" {
		options.At = time.Now().UTC().Format(time.RFC3339)
	}
	return options
}

func (i *importer) report(exams []Imported) Report {
	report := Report{Exams: append([]Imported{}, exams...), Problems: append([]content.Problem{}, content.SortProblems(i.problems)...)}
	if i.input != nil {
		report.Ignored = i.input.Ignored
	}
	return report
}

func (i *importer) questions() (count int) {
	for n := range i.input.Exams {
		count += countQuestions(i.input.Exams[n])
	}
	return count
}

func countQuestions(exam Exam) (count int) {
	for n := range exam.Spec.Papers {
		count += len(exam.Spec.Papers[n].Questions)
	}
	return count
}

// reportf adds a problem of the value at a path below the spec of an exam.
func (i *importer) reportf(exam int, path syntax.Path, format string, args ...any) {
	i.finding(exam, catalog.Problem{Field: path.String(), Detail: fmt.Sprintf(format, args...)}, content.SeverityError)
}

// finding adds a problem of the catalogue's rules, with the position of the value in the input.
func (i *importer) finding(exam int, problem catalog.Problem, severity content.Severity) {
	at, field := i.input.Place(exam, syntax.ParsePath(problem.Field))
	i.problems = append(i.problems, content.Problem{Position: at, Field: field, Detail: problem.Detail, Severity: severity})
}

// check validates an exam as the operator and the API server would, and seals its papers.
func (i *importer) check(ctx context.Context, index int) error {
	spec := &i.input.Exams[index].Spec
	read, err := assemble.Read(ctx, &v1alpha1.ExamContent{Spec: *spec}, nil) // no question is in a chunk yet
	if err != nil {
		return err
	}
	found, err := read.Findings()
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(found.Problems))
	for _, problem := range found.Problems {
		known[problem.Field] = true
		i.finding(index, problem, content.SeverityError)
	}
	if err := i.checkFields(ctx, index, known); err != nil {
		return err
	}
	for _, warning := range found.Warnings {
		i.finding(index, warning, content.SeverityWarning)
	}
	if found.Omitted > 0 {
		i.reportf(index, nil, "and %d more problems in exam %s", found.Omitted, spec.ExamKey)
	}
	if len(found.Problems) > 0 || !i.options.Seal {
		return nil
	}
	for n := range read.Exam.Papers {
		digest, err := read.Exam.Papers[n].SealDigest()
		if err != nil {
			return err
		}
		spec.Papers[n].Verification = &v1alpha1.Verification{
			By: i.options.By, At: i.options.At, Digest: digest.String(),
		}
	}
	return nil
}

// write renders all exams and moves their files to the output.
func (i *importer) write(ctx context.Context) (report Report, err error) {
	if i.stage, err = newStaging(i.options.Out); err != nil {
		return i.report(nil), err
	}
	defer func() { err = i.stage.discard(err) }()
	steps := progress.From(ctx)
	steps.Start("writing", int64(i.questions()), progress.Questions)
	var exams []Imported
	for n := range i.input.Exams {
		if err := ctx.Err(); err != nil {
			return i.report(nil), err
		}
		exam := &i.input.Exams[n]
		questions := countQuestions(*exam)
		name, configMaps, err := i.render(ctx, n)
		if err != nil {
			return i.report(nil), err
		}
		steps.Add(int64(questions))
		exams = append(exams, Imported{
			ExamKey: exam.Spec.ExamKey, File: filepath.Join(i.options.Out, name),
			Papers: len(exam.Spec.Papers), Questions: questions, ConfigMaps: configMaps,
		})
		exam.Spec.Papers = nil // releases its questions
	}
	if err := content.AsError(content.SortProblems(i.problems)); err != nil {
		return i.report(nil), err
	}
	report = i.report(exams)
	report.Removed, err = i.stage.commit()
	return report, err
}
