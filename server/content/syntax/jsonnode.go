package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxJSONDepth limits nesting. Resources are less than 20 levels deep.
const maxJSONDepth = 200

// ParseNode reads one JSON value as a YAML syntax tree with the lines and columns of the text, in the order of the text. YAML's own
// parser cannot read all JSON: it refuses the surrogate pair `"\ud83d\ude00"`. FileLimit bounds its values.
func ParseNode(text []byte) (*yaml.Node, error) {
	node, _, err := parseNode(text, FileLimit())
	return node, err
}

func parseNode(text []byte, limit Limit) (*yaml.Node, Size, error) {
	r := jsonReader{limit: limit.Values, decoder: json.NewDecoder(bytes.NewReader(text)), text: text, line: 1, column: 1}
	r.decoder.UseNumber()
	node, err := r.value(0)
	if err != nil {
		return nil, Size{}, r.locate(err)
	}
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, Size{}, r.locate(errors.New("text after the JSON value"))
	}
	return node, Size{Values: r.values, Bytes: len(text)}, nil
}

// parseJSONValues reads consecutive JSON values. With an error it returns the values before it.
func parseJSONValues(text []byte) (docs []*Document, err error) {
	r := jsonReader{limit: FileLimit().Values, decoder: json.NewDecoder(bytes.NewReader(text)), text: text, line: 1, column: 1}
	r.decoder.UseNumber()
	for {
		start := int(r.decoder.InputOffset())
		if len(bytes.TrimSpace(text[start:])) == 0 {
			return docs, nil
		}
		root, err := r.value(0)
		if err != nil {
			return docs, r.locate(err)
		}
		doc, err := NewDocument(root, bytes.TrimSpace(text[start:r.decoder.InputOffset()]))
		if err != nil {
			return docs, err
		}
		docs = append(docs, doc)
	}
}

// jsonReader counts lines while it reads: line and column are the position of offset. It also counts values, up to limit.
type jsonReader struct {
	limit, values        int
	decoder              *json.Decoder
	text                 []byte
	offset, line, column int
}

// Error is a text that cannot be read. Line and Column count from 1; 0 means unknown.
type Error struct {
	Line, Column int
	Err          error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (r *jsonReader) locate(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	offset := int(r.decoder.InputOffset())
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = max(int(syntax.Offset)-1, 0)
	}
	line, column := r.position(offset)
	return &Error{Line: line, Column: column, Err: err}
}

// position returns the line and column of an offset. It counts from the previous call's offset, in characters as YAML's parser does.
func (r *jsonReader) position(offset int) (line, column int) {
	offset = min(offset, len(r.text))
	if offset < r.offset {
		r.offset, r.line, r.column = 0, 1, 1
	}
	passed := r.text[r.offset:offset]
	if end := bytes.LastIndexByte(passed, '\n'); end >= 0 {
		r.line, r.column = r.line+bytes.Count(passed, []byte{'\n'}), 1
		passed = passed[end+1:]
	}
	r.column += utf8.RuneCount(passed)
	r.offset = offset
	return r.line, r.column
}

// next returns the next token and the position of its first byte.
func (r *jsonReader) next() (json.Token, int, int, error) {
	offset := int(r.decoder.InputOffset())
	for offset < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[offset]) >= 0 {
		offset++
	}
	line, column := r.position(offset)
	token, err := r.decoder.Token()
	return token, line, column, err
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	token, line, column, err := r.next()
	if err != nil {
		return nil, err
	}
	if depth > maxJSONDepth {
		return nil, errors.New("nested too deeply")
	}
	if r.values++; r.values > r.limit {
		return nil, tooManyValues(line, r.limit).Err
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: line, Column: column}
	switch t := token.(type) {
	case json.Delim:
		return node, r.collection(node, t, depth)
	case string:
		node.Tag, node.Value, node.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		node.Tag, node.Value = "!!float", t.String()
		if _, err := t.Int64(); err == nil {
			node.Tag = "!!int"
		}
	case bool:
		node.Tag, node.Value = "!!bool", fmt.Sprint(t)
	case nil:
		node.Tag, node.Value = "!!null", "null"
	}
	return node, nil
}

func (r *jsonReader) collection(node *yaml.Node, open json.Delim, depth int) error {
	node.Kind, node.Tag, node.Style = yaml.SequenceNode, "!!seq", yaml.FlowStyle
	if open == '{' {
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
	}
	for r.decoder.More() {
		child, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if open == '{' && len(node.Content)%2 == 0 && len(child.Value) > maxNameBytes {
			return errLongName
		}
		node.Content = append(node.Content, child)
	}
	_, err := r.decoder.Token()
	return err
}
