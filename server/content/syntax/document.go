package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Position is a position in a file. Line and Column count from 1; 0 means unknown. In a workbook they name a cell of Sheet.
type Position struct {
	File   string `json:"file"`
	Sheet  string `json:"sheet,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String returns `file:line:column`, which editors and CI systems make clickable, or `file: sheet!C7`.
func (p Position) String() string {
	switch {
	case p.Sheet != "" && p.Column > 0 && p.Line > 0:
		return fmt.Sprintf("%s: %s!%s", p.File, p.Sheet, cellName(p.Line, p.Column))
	case p.Sheet != "" && p.Line > 0:
		return fmt.Sprintf("%s: %s!%d:%d", p.File, p.Sheet, p.Line, p.Line)
	case p.Sheet != "":
		return p.File + ": " + p.Sheet
	case p.Line > 0 && p.Column > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	case p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return p.File
	}
}

// cellName returns the name of a cell in a workbook, such as C7.
func cellName(line, column int) string {
	name := ""
	for ; column > 0; column = (column - 1) / 26 {
		name = string(rune('A'+(column-1)%26)) + name
	}
	return fmt.Sprintf("%s%d", name, line)
}

// Document is one YAML or JSON document of a file: its values as kubectl reads them, and their positions.
type Document struct {
	File string
	// Root is the syntax tree. It has the lines of the file.
	Root *yaml.Node
	// Value is the decoded document, with json.Number. JSON is the same as text.
	Value any
	JSON  []byte
	// Size is the size of the document.
	Size Size
}

// Position returns the position of the value at p, or of its nearest parent if there is no such value.
func (d *Document) Position(p Path) Position {
	node := Locate(d.Root, p)
	return Position{File: d.File, Line: node.Line, Column: node.Column}
}

// Text returns the string at the keys, or "".
func (d *Document) Text(keys ...string) string {
	value := d.Value
	for _, key := range keys {
		mapping, _ := value.(map[string]any)
		value = mapping[key]
	}
	text, _ := value.(string)
	return text
}

// SplitDocuments splits a stream at its `---` lines, as kubectl does. It returns the number of lines before each part.
func SplitDocuments(stream []byte) (parts [][]byte, linesBefore []int) {
	line, from, fromLine := 0, 0, 0
	offset := 0
	for text := range bytes.Lines(stream) {
		if isSeparator(text) {
			parts, linesBefore = append(parts, stream[from:offset]), append(linesBefore, fromLine)
			from, fromLine = offset+len(text), line+1
		}
		offset += len(text)
		line++
	}
	return append(parts, stream[from:]), append(linesBefore, fromLine)
}

func isSeparator(line []byte) bool {
	rest, found := bytes.CutPrefix(line, []byte("---"))
	if !found {
		return false
	}
	trimmed := bytes.TrimSpace(rest)
	return len(trimmed) == 0 || len(trimmed) < len(rest) && trimmed[0] == '#' && (rest[0] == ' ' || rest[0] == '\t')
}

// ParseDocuments reads the documents of a part: one YAML document, or any number of JSON values, as kubectl does. A part that holds only
// comments has none. FileLimit bounds each document. An error is an *Error with the line of the file; the documents before it are returned too.
func ParseDocuments(file string, text []byte, linesBefore int) ([]*Document, error) {
	docs, err := parsePart(bytes.TrimPrefix(text, []byte("\ufeff")))
	for _, d := range docs {
		d.File = file
		Shift(d.Root, linesBefore)
	}
	if syntax, ok := errors.AsType[*Error](err); ok {
		return docs, &Error{Line: syntax.Line + linesBefore, Column: syntax.Column, Err: syntax.Err}
	}
	return docs, err
}

func parsePart(text []byte) ([]*Document, error) {
	if FirstByte(text) == '{' {
		docs, err := parseJSONValues(text)
		if err == nil || len(docs) > 0 {
			return docs, err
		}
	}
	doc, err := Parse(text)
	if doc == nil {
		return nil, err
	}
	return []*Document{doc}, err
}

// Parse reads one JSON or YAML document within FileLimit. It returns nil for a text of comments. An error is an *Error.
func Parse(text []byte) (*Document, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && json.Valid(trimmed) {
		return ParseJSON(text, FileLimit())
	}
	return ParseYAML(text, FileLimit())
}

// ParseJSON reads one JSON document. An error is an *Error.
func ParseJSON(text []byte, limit Limit) (*Document, error) {
	root, size, err := parseNode(text, limit)
	if err != nil {
		return nil, err
	}
	doc, err := NewDocument(root, text)
	if err != nil {
		return nil, err
	}
	doc.Size = size
	return doc, nil
}

// ParseYAML reads one YAML document. It returns nil for a text of comments. An error is an *Error. It checks the limit twice: in the text, so
// that the tree is not too large, and in the tree, because conversion to JSON expands aliases.
func ParseYAML(text []byte, limit Limit) (*Document, error) {
	if err := checkYAML(text, limit); err != nil {
		return nil, err
	}
	var top yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&top); errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // neither a document nor a problem
	} else if err != nil {
		return nil, yamlError(err)
	}
	if len(top.Content) == 0 {
		return nil, nil //nolint:nilnil // neither a document nor a problem
	}
	if err := nothingFollows(decoder); err != nil {
		return nil, err
	}
	root := top.Content[0]
	size, err := SizeOf(root, limit)
	if err != nil {
		return nil, err
	}
	asJSON, err := sigsyaml.YAMLToJSON(text)
	if err != nil {
		located := yamlError(err)
		if located.Line == 0 {
			located.Line, located.Column = root.Line, root.Column
		}
		return nil, located
	}
	doc, err := NewDocument(root, asJSON)
	if err != nil {
		return nil, err
	}
	doc.Size = size
	return doc, nil
}

// nothingFollows returns an error if another document follows, because readers of a part use its first document only.
func nothingFollows(decoder *yaml.Decoder) error {
	for {
		var top yaml.Node
		if err := decoder.Decode(&top); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return yamlError(err)
		}
		if len(top.Content) == 0 || top.Content[0].Kind == yaml.ScalarNode && top.Content[0].Value == "" {
			continue // a mark with nothing behind it
		}
		return &Error{Line: top.Content[0].Line, Column: top.Content[0].Column, Err: errors.New(
			"a further document begins here, which kubectl and the operator do not read: in a file, a line that holds nothing but --- must precede it; in a chunk, make it part of the one list")}
	}
}

// NewDocument returns the document of a syntax tree and the JSON text of its values.
func NewDocument(root *yaml.Node, asJSON []byte) (*Document, error) {
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	d := &Document{Root: root, JSON: asJSON}
	if err := decoder.Decode(&d.Value); err != nil {
		return nil, &Error{Line: root.Line, Column: root.Column, Err: err}
	}
	return d, nil
}

// yamlLine finds the line in the library's messages, which give it in no other form. Scanner and decoder count from 1, the parser from 0.
// fromZero matches the parser's messages.
var (
	yamlLine = regexp.MustCompile(`line (\d+): `)
	fromZero = regexp.MustCompile(`^did not find expected (<document start>|node content|'-' indicator|key|',' or )`)
)

func yamlError(err error) *Error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	located := &Error{}
	if match := yamlLine.FindStringSubmatchIndex(text); match != nil {
		located.Line, _ = strconv.Atoi(text[match[2]:match[3]])
		text = text[:match[0]] + text[match[1]:]
		if fromZero.MatchString(text) {
			located.Line++
		}
	}
	located.Err = errors.New(strings.TrimSpace(text))
	return located
}

// Shift moves a tree down by lines. The target of an alias is moved where it is defined.
func Shift(node *yaml.Node, lines int) {
	node.Line += lines
	for _, child := range node.Content {
		Shift(child, lines)
	}
}

// Locate follows p from node: to the key of a mapping's entry, or to an item of a sequence. If there is no such value, it returns the
// nearest parent.
func Locate(node *yaml.Node, p Path) *yaml.Node {
	place := node
	for _, s := range p {
		key, value := child(node, s)
		if value == nil {
			break
		}
		place, node = key, value
	}
	return place
}

// ValueAt is like Locate, but returns the value itself, or nil.
func ValueAt(node *yaml.Node, p Path) *yaml.Node {
	for _, s := range p {
		if _, node = child(node, s); node == nil {
			return nil
		}
	}
	return node
}

// child returns the node that gives the position of s, and its value.
func child(node *yaml.Node, s Step) (place, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.Kind == yaml.SequenceNode && s.Key == "" && s.Index < len(node.Content):
		return node.Content[s.Index], node.Content[s.Index]
	case node.Kind == yaml.MappingNode && s.Key != "":
		for i := 0; i < len(node.Content); i += 2 {
			switch node.Content[i].Value {
			case s.Key:
				return node.Content[i], node.Content[i+1]
			case "<<":
				if place, value := child(node.Content[i+1], s); value != nil {
					return place, value
				}
			}
		}
	}
	return nil, nil
}
