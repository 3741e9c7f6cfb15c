package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Position is a place in a file. Line and Column count from 1; 0 means unknown.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// document is one YAML or JSON document of a file: its values as kubectl sees them, and where they stand.
type document struct {
	file string
	// root is the syntax tree; its lines are those of the file.
	root *yaml.Node
	// value is what root means, as decoded from JSON with json.Number; json is the same as text.
	value any
	json  []byte
}

// position returns where the value at p stands: of the nearest thing above it when there is none.
func (d *document) position(p path) Position {
	node := locate(d.root, p)
	return Position{File: d.file, Line: node.Line, Column: node.Column}
}

// text returns the string at the keys, or "".
func (d *document) text(keys ...string) string {
	value := d.value
	for _, key := range keys {
		mapping, _ := value.(map[string]any)
		value = mapping[key]
	}
	text, _ := value.(string)
	return text
}

// splitDocuments cuts a stream at its `---` lines, as kubectl does. Each part keeps its place in the file by the number
// of lines before it.
func splitDocuments(stream []byte) (parts [][]byte, linesBefore []int) {
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

// parseDocuments reads the documents of a part: one of YAML, or JSON values in a row, as kubectl reads them. There are none in comments
// alone. An error is a *syntaxError with the line of the file.
func parseDocuments(file string, text []byte, linesBefore int) ([]*document, error) {
	docs, err := parsePart(bytes.TrimPrefix(text, []byte("\ufeff")))
	for _, d := range docs {
		d.file = file
		shift(d.root, linesBefore)
	}
	if syntax, ok := errors.AsType[*syntaxError](err); ok {
		return docs, &syntaxError{Line: syntax.Line + linesBefore, Column: syntax.Column, Err: syntax.Err}
	}
	return docs, err
}

func parsePart(text []byte) ([]*document, error) {
	if firstByte(text) == '{' {
		docs, err := parseJSONValues(text)
		if err == nil || len(docs) > 0 {
			return docs, err
		}
	}
	doc, err := parseText(text)
	if doc == nil {
		return nil, err
	}
	return []*document{doc}, err
}

// parseText reads JSON or YAML into a tree and a value; nil for comments alone. It fails with *syntaxError only.
func parseText(text []byte) (*document, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && json.Valid(trimmed) {
		return parseJSON(text)
	}
	return parseYAML(text)
}

func parseJSON(text []byte) (*document, error) {
	root, err := jsonNode(text)
	if err != nil {
		return nil, err
	}
	return newDocument(root, text)
}

func parseYAML(text []byte) (*document, error) {
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
	asJSON, err := sigsyaml.YAMLToJSON(text)
	if err != nil {
		located := yamlError(err)
		if located.Line == 0 {
			located.Line, located.Column = root.Line, root.Column
		}
		return nil, located
	}
	return newDocument(root, asJSON)
}

// nothingFollows fails at a further document in a text of which readers take the first one only.
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
		return &syntaxError{Line: top.Content[0].Line, Column: top.Content[0].Column, Err: errors.New(
			"a further document begins here, which kubectl and the operator do not read: in a file, a line that holds nothing but --- must stand before it; in a chunk, make it part of the one list")}
	}
}

func newDocument(root *yaml.Node, asJSON []byte) (*document, error) {
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	d := &document{root: root, json: asJSON}
	if err := decoder.Decode(&d.value); err != nil {
		return nil, &syntaxError{Line: root.Line, Column: root.Column, Err: err}
	}
	return d, nil
}

// yamlLine finds the line in the library's messages, its only form of telling it. Its scanner and its decoder count
// from 1, its parser from 0; fromZero knows the parser's messages.
var (
	yamlLine = regexp.MustCompile(`line (\d+): `)
	fromZero = regexp.MustCompile(`^did not find expected (<document start>|node content|'-' indicator|key|',' or )`)
)

func yamlError(err error) *syntaxError {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	located := &syntaxError{}
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

// shift moves a tree down by lines. Aliases point at nodes that are moved where they are defined.
func shift(node *yaml.Node, lines int) {
	node.Line += lines
	for _, child := range node.Content {
		shift(child, lines)
	}
}

// locate follows p from node: to the key of a mapping's entry, or to an item of a sequence. Where p leads nowhere, it
// returns how far it came.
func locate(node *yaml.Node, p path) *yaml.Node {
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

// valueAt is like locate but returns the value itself, or nil.
func valueAt(node *yaml.Node, p path) *yaml.Node {
	for _, s := range p {
		if _, node = child(node, s); node == nil {
			return nil
		}
	}
	return node
}

// child returns the node where s stands in the text and its value.
func child(node *yaml.Node, s step) (place, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.Kind == yaml.SequenceNode && s.key == "" && s.index < len(node.Content):
		return node.Content[s.index], node.Content[s.index]
	case node.Kind == yaml.MappingNode && s.key != "":
		for i := 0; i < len(node.Content); i += 2 {
			switch node.Content[i].Value {
			case s.key:
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
