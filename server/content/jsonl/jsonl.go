package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"examprep.dev/server/content"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/syntax"
)

// Limits of an input.
const (
	// maxRecordBytes bounds a line of JSON Lines.
	maxRecordBytes = 8 << 20
	// maxFileBytes bounds a file, and maxExamsBytes exams.json, which is read as one value.
	maxFileBytes  = 256 << 20
	maxExamsBytes = 64 << 20
	maxPapers     = 100_000
	maxProblems   = 10_000
	// maxIgnored bounds the names of unknown fields.
	maxIgnored = 1000
)

// records reads JSON objects into T and says for each what is wrong with its form, by file, line and field. Fields that
// T does not know are counted, not refused: the format may grow.
type records[T any] struct {
	file     string
	problems []content.Problem
	// ignored counts the unknown fields by `file: field`.
	ignored map[string]int
	// stop reports whether no more lines should be read; nil: never.
	stop func() bool
}

// record is one object and where it stands.
type record[T any] struct {
	value T
	// raw is the line as it was read, without the line's end; valid until the next record only.
	raw  []byte
	line int
}

// readLines calls use for every line of the file that is a T. It fails when the file cannot be read.
func (r *records[T]) readLines(ctx context.Context, use func(record[T])) error {
	file, err := os.Open(r.file)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer func() { _ = file.Close() }()
	return r.scan(ctx, &limited{source: file, left: maxFileBytes}, use)
}

// errLarge is returned by a limited.
var errLarge = fmt.Errorf("is larger than %d MiB: split the input", maxFileBytes>>20)

// limited is a reader that fails with errLarge after some bytes.
type limited struct {
	source io.Reader
	left   int64
}

// Read reads from the source.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.source.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errLarge
	}
	return n, err
}

func (r *records[T]) scan(ctx context.Context, source io.Reader, use func(record[T])) error {
	steps := progress.From(ctx)
	scanner := bufio.NewScanner(source)
	scanner.Buffer(make([]byte, 0, 64<<10), maxRecordBytes)
	line := 0
	for scanner.Scan() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(r.problems) > maxProblems || r.stop != nil && r.stop() {
			return nil
		}
		if errors.Is(scanner.Err(), errLarge) {
			break // the line is cut off
		}
		line++
		text := scanner.Bytes()
		steps.Add(int64(len(text)) + 1)
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff")) // source digests do not cover it
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if value, ok := r.decode(text, line-1); ok {
			use(record[T]{value: value, raw: text, line: line})
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		r.report(line+1, 0, "", fmt.Sprintf("the line is longer than %d bytes", maxRecordBytes))
	} else if errors.Is(err, errLarge) {
		r.report(line+1, 0, "", err.Error())
	} else if err != nil {
		return fmt.Errorf("import: %s: %w", r.file, err)
	}
	return nil
}

// decode reads one value, which linesBefore lines of the file precede.
func (r *records[T]) decode(text []byte, linesBefore int) (value T, ok bool) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		r.report(linesBefore+syntax.LineOfInvalidUTF8(text), 0, "", "is not valid UTF-8")
		return value, false
	}
	root, err := syntax.ParseNode(text)
	if unreadable, ok := errors.AsType[*syntax.Error](err); ok {
		r.report(linesBefore+unreadable.Line, unreadable.Column, "", unreadable.Err.Error())
		return value, false
	}
	doc, err := syntax.NewDocument(root, text)
	if err != nil {
		r.report(linesBefore+1, 0, "", err.Error())
		return value, false
	}
	syntax.Shift(root, linesBefore)
	found := len(r.problems)
	doc.Check(func(p syntax.Path, at *yaml.Node, detail string) { r.report(at.Line, at.Column, p.String(), detail) })
	for _, problem := range doc.Decode(&value) {
		if problem.Unknown {
			r.ignore(problem.At)
			continue
		}
		at := syntax.Locate(root, problem.At)
		r.report(at.Line, at.Column, problem.At.String(), problem.Detail)
	}
	if len(r.problems) > found {
		return value, false
	}
	return value, true
}

func (r *records[T]) report(line, column int, field, detail string) {
	r.problems = append(r.problems, content.Problem{
		Position: syntax.Position{File: r.file, Line: line, Column: column}, Field: field, Detail: detail,
	})
}

func (r *records[T]) ignore(p syntax.Path) {
	if r.ignored == nil {
		r.ignored = make(map[string]int)
	}
	var names syntax.Path // without indexes, so that a field of a hundred sections counts as one
	for _, s := range p {
		if s.Key != "" {
			names = names.Field(s.Key)
		}
	}
	name := r.file + ": " + names.String()
	if _, known := r.ignored[name]; !known && len(r.ignored) >= maxIgnored {
		name = r.file + ": other fields"
	}
	r.ignored[name]++
}
