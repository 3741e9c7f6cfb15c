package assemble

import (
	"bytes"
	"errors"

	"go.yaml.in/yaml/v3"
	sigsjson "sigs.k8s.io/json"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/syntax"
)

// DecodeChunk reads the text of a chunk: JSON Lines if the first character is {, a JSON array if it is [, otherwise a YAML list. It returns
// all problems of the form, and no questions if there is one. It decodes like the API server: names are case-sensitive, unknown and duplicate
// names are errors. But a null is read as an absent field, which the API server refuses.
func DecodeChunk(text []byte) ([]v1alpha1.Question, []ChunkError) {
	d := decoder{}
	switch syntax.FirstByte(text) {
	case '{':
		d.lines(text)
	case '[':
		d.array(text)
	default:
		doc, err := syntax.ParseYAML(text)
		d.list(doc, err)
	}
	switch {
	case len(d.problems) > 0:
		return nil, d.problems
	case len(d.questions) == 0:
		return nil, []ChunkError{{Detail: "holds no question"}}
	}
	return d.questions, nil
}

// LineOf returns the line of a value in the text of a valid chunk: of the field at tail in the question at index.
func LineOf(text []byte, index int, tail syntax.Path) int {
	if syntax.FirstByte(text) != '{' {
		doc, err := syntax.Parse(text)
		if err != nil || doc == nil {
			return 0
		}
		return syntax.Locate(doc.Root, syntax.Path{}.At(index).Join(tail)).Line
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if index == 0 {
			return number
		}
		index--
	}
	return 0
}

type decoder struct {
	questions []v1alpha1.Question
	problems  []ChunkError
}

func (d *decoder) lines(text []byte) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var question v1alpha1.Question
		strictErrors, err := sigsjson.UnmarshalStrict(line, &question)
		if err != nil || len(strictErrors) > 0 || hasLongNumber(line) {
			d.line(line, number-1)
		}
		d.questions = append(d.questions, question)
	}
}

// line reports the problems of a line of JSON Lines.
func (d *decoder) line(line []byte, linesBefore int) {
	doc, err := syntax.ParseJSON(line)
	if err != nil {
		d.syntax(err, linesBefore)
		return
	}
	syntax.Shift(doc.Root, linesBefore)
	prefix := syntax.Path{}.At(len(d.questions))
	doc.Check(func(p syntax.Path, at *yaml.Node, detail string) { d.report(at.Line, prefix.Join(p), detail) })
	for _, problem := range doc.Decode(&v1alpha1.Question{}) {
		d.report(syntax.Locate(doc.Root, problem.At).Line, prefix.Join(problem.At), problem.Detail)
	}
}

func (d *decoder) array(text []byte) {
	strictErrors, err := sigsjson.UnmarshalStrict(text, &d.questions)
	if err == nil && len(strictErrors) == 0 && !hasLongNumber(text) {
		return
	}
	d.questions = nil
	doc, err := syntax.ParseJSON(text)
	d.list(doc, err)
}

func (d *decoder) list(doc *syntax.Document, err error) {
	switch {
	case err != nil:
		d.syntax(err, 0)
		return
	case doc == nil:
		d.report(1, nil, "holds no question")
		return
	case doc.Root.Kind != yaml.SequenceNode:
		d.report(doc.Root.Line, nil, "must be a list of questions")
		return
	}
	doc.Check(func(p syntax.Path, at *yaml.Node, detail string) { d.report(at.Line, p, detail) })
	for _, problem := range doc.Decode(&d.questions) {
		d.report(syntax.Locate(doc.Root, problem.At).Line, problem.At, problem.Detail)
	}
}

func (d *decoder) report(line int, at syntax.Path, detail string) {
	d.problems = append(d.problems, ChunkError{Line: line, Field: at.String(), Detail: detail})
}

func (d *decoder) syntax(err error, linesBefore int) {
	if unreadable, ok := errors.AsType[*syntax.Error](err); ok {
		d.report(unreadable.Line+linesBefore, nil, unreadable.Err.Error())
		return
	}
	d.report(0, nil, err.Error())
}

// exactDigits is the number of digits up to which a float64 holds every whole number exactly.
const exactDigits = 15

// hasLongNumber reports whether text can hold a number that a float64 cannot.
func hasLongNumber(text []byte) bool {
	digits := 0
	for _, c := range text {
		if '0' <= c && c <= '9' {
			if digits++; digits > exactDigits {
				return true
			}
		} else {
			digits = 0
		}
	}
	return false
}
