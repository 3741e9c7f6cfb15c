package importer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"examprep.dev/server/content/syntax"
)

// emit renders a resource as YAML in the order of its struct fields, so that examKey comes first and a diff is small. It quotes strings that
// some YAML reader does not read as text: to kubectl (YAML 1.1) an option text `No` would be a boolean. comments maps paths to comments of
// one line above the key; head is the first line.
func emit(object any, head string, comments map[string]string) ([]byte, error) {
	text, err := syntax.CompactJSON(object)
	if err != nil {
		return nil, err
	}
	node, err := syntax.ParseNode(text)
	if err != nil {
		return nil, fmt.Errorf("render %T: %w", object, err)
	}
	restyle(node, nil, comments)
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n", head)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return nil, fmt.Errorf("render %T: %w", object, err)
	}
	return out.Bytes(), encoder.Close()
}

// restyle turns a tree read from JSON into block style.
func restyle(node *yaml.Node, at syntax.Path, comments map[string]string) {
	node.Style, node.Line, node.Column = 0, 0, 0
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			below := at.Field(key.Value)
			restyle(key, nil, nil)
			restyle(value, below, comments)
			key.HeadComment = comments[below.String()]
		}
	case yaml.SequenceNode:
		for i, value := range node.Content {
			restyle(value, at.At(i), comments)
		}
	case yaml.ScalarNode:
		if node.Tag == "!!str" {
			node.Style = stringStyle(node.Value)
		}
	default:
	}
	if (node.Kind == yaml.MappingNode || node.Kind == yaml.SequenceNode) && len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
}

func stringStyle(s string) yaml.Style {
	switch {
	case isLiteral(s):
		return yaml.LiteralStyle
	case isPlain(s):
		return 0
	default:
		return yaml.DoubleQuotedStyle
	}
}

// notText are words that YAML 1.1 or 1.2 reads as something else than text, in lower case.
var notText = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}

// isPlain allows names and simple sentences. It is narrower than YAML, so that no reader can disagree.
func isPlain(s string) bool {
	if s == "" || len(s) > 200 || !isLetter(rune(s[0])) || strings.HasSuffix(s, " ") ||
		slices.Contains(notText, strings.ToLower(s)) {
		return false
	}
	for i, r := range s {
		switch {
		case isLetter(r), '0' <= r && r <= '9', strings.ContainsRune("-_./()+", r):
		case r == ' ' || r == ',' || r == ';':
		case r == ':' && i+1 < len(s) && s[i+1] == '/':
		default:
			return false
		}
	}
	return true
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// isLiteral reports whether a literal block (`|`) can hold s and is easier to read: several lines without blanks at their ends, and
// no character that needs an escape.
func isLiteral(s string) bool {
	if !strings.Contains(strings.TrimSuffix(s, "\n"), "\n") && !strings.HasSuffix(s, "\n") {
		return false
	}
	if strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") || strings.TrimSpace(s) == "" {
		return false
	}
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		if line != strings.TrimSpace(line) || strings.ContainsFunc(line, syntax.NeedsEscape) {
			return false
		}
	}
	return true
}
