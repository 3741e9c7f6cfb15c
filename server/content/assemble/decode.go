package assemble

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
	sigsjson "sigs.k8s.io/json"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/syntax"
)

// chunkLimit bounds a chunk. A question of each field and 11 options has about 50 values; most have half as many as the limit allows.
func chunkLimit() syntax.Limit {
	return syntax.Limit{Values: 40 * catalog.MaxQuestions, Bytes: MaxChunkBytes}
}

// oneTree is held while a chunk has a syntax tree, which needs more memory than its text. The operator reads several exams at once.
var oneTree sync.Mutex

// DecodeChunk reads the text of a chunk: JSON Lines if the first character is {, a JSON array if it is [, otherwise a YAML list. It returns
// the problems of the form, at most catalog.MaxProblems, and no questions if there is one. It decodes like the API server: names are case-sensitive, unknown and duplicate
// names are errors. But a null is read as an absent field, which the API server refuses.
func DecodeChunk(text []byte) ([]v1alpha1.Question, []ChunkError) {
	d := decodeChunk(text)
	return d.questions, d.problems
}

func decodeChunk(text []byte) *decoder {
	d := &decoder{}
	var err error
	switch syntax.FirstByte(text) {
	case '{', '[':
		if d.size, err = syntax.SizeOfJSON(text, chunkLimit()); err != nil {
			d.syntax(err, 0)
		} else if syntax.FirstByte(text) == '{' {
			d.lines(text)
		} else {
			d.array(text)
		}
	default:
		d.tree(text, syntax.ParseYAML)
	}
	if len(d.problems) > 0 {
		d.questions = nil
	} else if len(d.questions) == 0 {
		d.report(0, nil, "holds no question")
	}
	return d
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
	size      syntax.Size
}

// tooMany reports whether a chunk has more questions than a paper can have. It reports that as a problem.
func (d *decoder) tooMany(count, line int) bool {
	if count <= catalog.MaxQuestions {
		return false
	}
	d.report(line, nil, fmt.Sprintf("holds more than %d questions", catalog.MaxQuestions))
	return true
}

func (d *decoder) full() bool { return len(d.problems) >= catalog.MaxProblems }

func (d *decoder) lines(text []byte) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if d.full() || d.tooMany(len(d.questions)+1, number) {
			return
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
	oneTree.Lock()
	defer oneTree.Unlock()
	doc, err := syntax.ParseJSON(line, chunkLimit())
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
	count, end := items(text)
	if d.tooMany(count, 1+bytes.Count(text[:end], []byte{'\n'})) {
		return
	}
	strictErrors, err := sigsjson.UnmarshalStrict(text, &d.questions)
	if err == nil && len(strictErrors) == 0 && !hasLongNumber(text) {
		return
	}
	d.questions = nil
	d.tree(text, syntax.ParseJSON)
}

// items returns how many items a JSON array has. It stops at the item after MaxQuestions, and returns where that begins.
func items(text []byte) (count, end int) {
	depth := 0
	count = 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = syntax.EndOfString(text, i)
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 1 {
				count++
			}
			if count > catalog.MaxQuestions {
				return count, len(text) - len(bytes.TrimLeft(text[i+1:], " \t\r\n"))
			}
		}
	}
	return count, len(text)
}

func (d *decoder) tree(text []byte, parse func([]byte, syntax.Limit) (*syntax.Document, error)) {
	oneTree.Lock()
	defer oneTree.Unlock()
	doc, err := parse(text, chunkLimit())
	if doc != nil {
		d.size = doc.Size
	}
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
	case d.tooMany(len(doc.Root.Content), lineOfItem(doc.Root, catalog.MaxQuestions)):
		return
	}
	doc.Check(func(p syntax.Path, at *yaml.Node, detail string) { d.report(at.Line, p, detail) })
	for _, problem := range doc.Decode(&d.questions) {
		d.report(syntax.Locate(doc.Root, problem.At).Line, problem.At, problem.Detail)
	}
}

func lineOfItem(list *yaml.Node, index int) int {
	if index < len(list.Content) {
		return list.Content[index].Line
	}
	return list.Line
}

func (d *decoder) report(line int, at syntax.Path, detail string) {
	if d.full() {
		return
	}
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

// hasLongNumber reports whether a JSON text has a number that a float64 may not hold.
func hasLongNumber(text []byte) bool {
	digits := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i = syntax.EndOfString(text, i)
		case '0' <= c && c <= '9':
			if digits++; digits > exactDigits {
				return true
			}
		default:
			digits = 0
		}
	}
	return false
}
