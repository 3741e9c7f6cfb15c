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

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content"
	"examprep.dev/server/content/fields"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/syntax"
)

// Import imports the folder options.From. A paper's provenance.sourceDigest is the SHA-256 of its lines of questions.jsonl, each with its
// line feed. The data set of a paper becomes a comment.
func Import(ctx context.Context, options importer.Options) (importer.Report, error) {
	return importer.Import(ctx, options, func(ctx context.Context) (*importer.Input, error) {
		r := &reader{folder: options.From, papers: make(map[string]*readPaper), ignored: make(map[string]int)}
		if err := r.read(ctx); err != nil {
			return nil, err
		}
		return r.input(), nil
	})
}

// reader holds the input in memory, because answers are checked against a whole paper.
type reader struct {
	folder   string
	exams    []*readExam
	papers   map[string]*readPaper
	problems []content.Problem
	ignored  map[string]int
}

type readExam struct {
	value  neutralExam
	at     syntax.Position
	papers []*readPaper
}

type readPaper struct {
	value     neutralPaper
	at        syntax.Position
	questions []v1alpha1.Question
	// lines are the questions' lines in the input.
	lines []int
	// source hashes the lines.
	source hash.Hash
}

func (r *reader) file(name string) string { return filepath.Join(r.folder, name) }

func (r *reader) reportf(at syntax.Position, field, format string, args ...any) {
	r.add(content.Problem{Position: at, Field: field, Detail: fmt.Sprintf(format, args...)})
}

// add adds a problem, or after maxProblems that there are more.
func (r *reader) add(problem content.Problem) {
	switch {
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, problem)
	case !r.full():
		r.problems = append(r.problems, content.Problem{
			Position: problem.Position, Detail: fmt.Sprintf("the input has more than %d problems; the rest is not read", maxProblems),
		})
	}
}

func (r *reader) full() bool { return len(r.problems) > maxProblems }

// read reads the three files, in the order of their references.
func (r *reader) read(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.readExams, r.readPapers, r.readQuestions} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	if len(r.problems) > 0 {
		return nil // what could not be read would be missed a second time
	}
	for _, exam := range r.exams {
		if len(exam.papers) == 0 {
			r.reportf(exam.at, "exam_key", "exam %s has no paper", exam.value.ExamKey)
		}
		for _, paper := range exam.papers {
			count := len(paper.questions)
			if want := paper.value.QuestionCount; want != nil && *want != count {
				r.reportf(paper.at, "question_count", "is %d, but questions.jsonl holds %d of paper %s", *want, count, paper.value.PaperID)
			} else if count == 0 {
				r.reportf(paper.at, "paper_id", "paper %s has no question", paper.value.PaperID)
			}
		}
	}
	return nil
}

func (r *reader) readExams(context.Context) error {
	found := records[[]neutralExam]{file: r.file("exams.json")}
	text, err := readExams(found.file, maxExamsBytes)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if text == nil {
		r.reportf(syntax.Position{File: found.file}, "", "is larger than %d MiB: split the input", maxExamsBytes>>20)
		return nil
	}
	exams, ok := found.decode(text, 0)
	finish(r, &found)
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
		at := syntax.Position{File: found.file, Line: place.Line, Column: place.Column}
		switch {
		case exam.ExamKey == "":
			r.reportf(at, "exam_key", "is required")
			continue
		case known[exam.ExamKey]:
			r.reportf(at, "exam_key", "exam %s is given twice", exam.ExamKey)
			continue
		}
		known[exam.ExamKey] = true
		r.exams = append(r.exams, &readExam{value: exam, at: at})
	}
	return nil
}

// readExams returns the text of a file, or nil if it has more than limit bytes.
func readExams(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // a file of the folder that the user named
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil || int64(len(text)) > limit {
		return nil, err
	}
	return text, nil
}

func (r *reader) readPapers(ctx context.Context) error {
	found := records[neutralPaper]{file: r.file("papers.jsonl"), stop: r.full}
	exams := make(map[string]*readExam, len(r.exams))
	for _, exam := range r.exams {
		exams[exam.value.ExamKey] = exam
	}
	err := found.readLines(ctx, func(line record[neutralPaper]) {
		paper := &readPaper{value: line.value, at: syntax.Position{File: found.file, Line: line.line}, source: sha256.New()}
		exam, id := exams[paper.value.ExamKey], paper.value.PaperID
		switch {
		case id == "":
			r.reportf(paper.at, "paper_id", "is required")
		case r.papers[id] != nil:
			r.reportf(paper.at, "paper_id", "paper %s is given already in line %d", id, r.papers[id].at.Line)
		case len(r.papers) == maxPapers:
			r.reportf(paper.at, "", "the input has more than %d papers: split it", maxPapers)
		case exam == nil:
			r.reportf(paper.at, "exam_key", "exam %q is not in exams.json", paper.value.ExamKey)
			r.papers[id] = paper // do not report its questions too
		default:
			r.papers[id] = paper
			exam.papers = append(exam.papers, paper)
		}
	})
	finish(r, &found)
	return err
}

func (r *reader) readQuestions(ctx context.Context) error {
	found := records[neutralQuestion]{file: r.file("questions.jsonl"), stop: r.full}
	if info, err := os.Stat(found.file); err == nil {
		progress.From(ctx).Start("reading "+filepath.Base(found.file), info.Size(), progress.Bytes)
	}
	err := found.readLines(ctx, func(line record[neutralQuestion]) {
		at := syntax.Position{File: found.file, Line: line.line}
		paper := r.papers[line.value.PaperID]
		if paper == nil {
			r.reportf(at, "paper_id", "paper %q is not in papers.jsonl", line.value.PaperID)
			return
		}
		question, err := line.value.question()
		if err != nil {
			r.reportf(at, "answer", "%v", err)
			return
		}
		paper.source.Write(line.raw)
		paper.source.Write([]byte{'\n'})
		paper.questions = append(paper.questions, question)
		paper.lines = append(paper.lines, line.line)
	})
	finish(r, &found)
	return err
}

func finish[T any](r *reader, found *records[T]) {
	for _, problem := range found.problems {
		r.add(problem)
	}
	maps.Copy(r.ignored, found.ignored)
}

// input returns what was read.
func (r *reader) input() *importer.Input {
	in := &importer.Input{Problems: r.problems, Ignored: r.ignored, Place: r.place}
	for _, exam := range r.exams {
		converted := importer.Exam{Spec: exam.value.spec(), Kinds: make(map[string]string), Comments: make(map[int]string)}
		for n, paper := range exam.papers {
			value := paper.value.paper("sha256:" + hex.EncodeToString(paper.source.Sum(nil)))
			value.Questions = paper.questions
			converted.Spec.Papers = append(converted.Spec.Papers, value)
			converted.Comments[n] = paper.value.comment()
			if kind := paper.value.Kind; kind != "" && kind != "sitting" {
				converted.Kinds[value.PaperID] = kind
			}
		}
		in.Exams = append(in.Exams, converted)
	}
	return in
}

// place is the [importer.Input.Place] of JSON Lines.
func (r *reader) place(exam int, path syntax.Path) (syntax.Position, string) {
	found := r.exams[exam]
	at, record := found.at, fields.Exams()
	if len(path) > 1 && path[0].Key == "papers" {
		paper := found.papers[path[1].Index]
		at, record, path = paper.at, fields.Papers(), path[2:]
		if len(path) > 1 && path[0].Key == "questions" {
			at = syntax.Position{File: r.file("questions.jsonl"), Line: paper.lines[path[1].Index]}
			record, path = fields.Questions(), path[2:]
		}
	}
	if len(path) > 1 && path[0].Key == "sections" {
		return at, path[:2].Join(fields.Sections().JSONPath(path[2:])).String()
	}
	return at, record.JSONPath(path).String()
}
