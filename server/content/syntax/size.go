package syntax

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limit bounds a document. The memory that a document needs is not bounded by its text: an alias repeats a value in a few bytes, and a
// value of two bytes is a node of a tree.
type Limit struct {
	// Values is the number of values and names. An alias counts as all values that it stands for.
	Values int
	// Bytes is the size as JSON, with aliases expanded.
	Bytes int
}

// FileLimit is the limit of one document of a file.
func FileLimit() Limit { return Limit{Values: 2_000_000, Bytes: 64 << 20} }

// Size is the size of a document, in the units of a Limit.
type Size struct{ Values, Bytes int }

const (
	// maxNameBytes bounds a name, because the path of each problem below it repeats it. A ConfigMap's keys have at most 253 bytes.
	maxNameBytes = 1 << 10
	// maxDirectives bounds the lines that begin with %, because the parser compares each with all others.
	maxDirectives = 100
	// minScalarBytes is the size of the longest number that JSON has for a short one, such as 1e20.
	minScalarBytes = 24
)

func tooManyValues(line, limit int) *Error {
	return &Error{Line: line, Err: fmt.Errorf("has more than %d values: split it", limit)}
}

var (
	errLongName   = fmt.Errorf("has a name of more than %d bytes", maxNameBytes)
	errDirectives = fmt.Errorf("has more than %d lines that begin with %%", maxDirectives)
)

// SizeOfJSON counts the values of a JSON text, or of consecutive ones, without decoding it. An error is an *Error.
func SizeOfJSON(text []byte, limit Limit) (Size, error) {
	values := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = EndOfString(text, i)
		case ',', ':', '[', '{':
			if values++; values > limit.Values {
				return Size{}, tooManyValues(1+bytes.Count(text[:i], []byte{'\n'}), limit.Values)
			}
		}
	}
	return Size{Values: values, Bytes: len(text)}, nil
}

// EndOfString returns the index of the quote that ends the JSON string whose first quote is at start. Without one it returns the
// length of text.
func EndOfString(text []byte, start int) int {
	for end := start; ; {
		next := bytes.IndexByte(text[end+1:], '"')
		if next < 0 {
			return len(text)
		}
		end += 1 + next
		first := end // of the backslashes before the quote; two of them are one character
		for text[first-1] == '\\' {
			first--
		}
		if (end-first)%2 == 0 {
			return end
		}
	}
}

// checkYAML refuses a text whose tree could be too large, before it is parsed. It counts the characters that begin a value, a comment or a
// directive. There can be more of them than values, because texts have commas.
func checkYAML(text []byte, limit Limit) error {
	marks, directives, line := 0, 0, 1
	for i, c := range text {
		switch c {
		case '\n':
			line++
		case ',', '[', '{':
			marks++
		case '#':
			if i == 0 || isBlank(text[i-1]) {
				marks++
			}
		case ':', '-', '?':
			if i+1 == len(text) || isBlank(text[i+1]) {
				marks++
			}
		case '%':
			if i == 0 || text[i-1] == '\n' || text[i-1] == '\r' {
				directives++
			}
		}
		if marks > limit.Values {
			return tooManyValues(line, limit.Values)
		}
		if directives > maxDirectives {
			return &Error{Line: line, Err: errDirectives}
		}
	}
	return nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// SizeOf returns the size of the value that a tree stands for, with each alias expanded. It visits each node once. An error is an *Error: the
// value is too large, has a number that JSON has not, or an alias is part of the value that it stands for.
func SizeOf(root *yaml.Node, limit Limit) (Size, error) {
	m := measure{limit: limit, anchored: make(map[*yaml.Node]Size)}
	err := m.add(root)
	return m.total, err
}

// noJSON are the numbers that YAML has and JSON has not.
var noJSON = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)

// measure adds up the sizes of nodes in the order of the text.
type measure struct {
	limit Limit
	total Size
	// anchored are the sizes of values that an alias can stand for.
	anchored map[*yaml.Node]Size
}

func (m *measure) add(node *yaml.Node) error {
	before := m.total
	switch node.Kind {
	case yaml.AliasNode:
		target, complete := m.anchored[node.Alias]
		if !complete {
			return &Error{Line: node.Line, Column: node.Column, Err: fmt.Errorf("the value of alias %.100q contains itself", node.Value)}
		}
		m.total.Values += target.Values
		m.total.Bytes += target.Bytes
	case yaml.ScalarNode:
		if noJSON.MatchString(node.Value) && node.ShortTag() == "!!float" {
			return &Error{Line: node.Line, Column: node.Column, Err: fmt.Errorf("%s is not a decimal number", node.Value)}
		}
		m.total.Values++
		m.total.Bytes += jsonBytes(node.Value)
	default:
		m.total.Values++
		m.total.Bytes += len("[]")
	}
	if err := m.check(node); err != nil {
		return err
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && len(child.Value) > maxNameBytes {
			return &Error{Line: child.Line, Column: child.Column, Err: errLongName}
		}
		m.total.Bytes += len(",")
		if err := m.add(child); err != nil {
			return err
		}
	}
	if node.Anchor != "" && node.Kind != yaml.AliasNode {
		m.anchored[node] = Size{Values: m.total.Values - before.Values, Bytes: m.total.Bytes - before.Bytes}
	}
	return nil
}

func (m *measure) check(node *yaml.Node) error {
	var err error
	switch {
	case m.total.Values > m.limit.Values:
		err = tooManyValues(0, m.limit.Values).Err
	case m.total.Bytes > m.limit.Bytes:
		err = fmt.Errorf("has more than %d bytes as JSON: split it", m.limit.Bytes)
	default:
		return nil
	}
	if node.Kind == yaml.AliasNode {
		err = errors.New("with aliases expanded, " + err.Error())
	}
	return &Error{Line: node.Line, Column: node.Column, Err: err}
}

// jsonBytes returns the size of a scalar as JSON, or more.
func jsonBytes(value string) int {
	size := len(`""`)
	for _, r := range value {
		switch {
		case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
			size += len(`\u0000`)
		case r == '"', r == '\\':
			size += 2
		default:
			size += utf8.RuneLen(r)
		}
	}
	return max(size, minScalarBytes)
}

// maxShown is how many bytes of a value a message shows.
const maxShown = 100

// shown returns the beginning of a value for a message.
func shown(value string) string {
	if len(value) <= maxShown {
		return value
	}
	cut := maxShown
	for !utf8.RuneStart(value[cut]) {
		cut--
	}
	return value[:cut] + "…"
}
