package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// emit renders a resource as YAML in the order of its struct fields, so that a person finds examKey on top and a diff
// stays small. Strings are quoted unless every YAML reader takes them for text: kubectl's is a YAML 1.1 reader, to
// which an option text `No` would be a boolean. comments maps paths to
// comments of one line that stand above the key; head is one on top.
func emit(object any, head string, comments map[string]string) ([]byte, error) {
	text, err := compactJSON(object)
	if err != nil {
		return nil, err
	}
	node, err := jsonNode(text)
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
func restyle(node *yaml.Node, at path, comments map[string]string) {
	node.Style, node.Line, node.Column = 0, 0, 0
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			below := at.field(key.Value)
			restyle(key, nil, nil)
			restyle(value, below, comments)
			key.HeadComment = comments[below.String()]
		}
	case yaml.SequenceNode:
		for i, value := range node.Content {
			restyle(value, at.at(i), comments)
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

// isLiteral tells whether s survives as a literal block (`|`) and reads better so: several lines, none with blanks at
// its ends, nothing that needs an escape.
func isLiteral(s string) bool {
	if !strings.Contains(strings.TrimSuffix(s, "\n"), "\n") && !strings.HasSuffix(s, "\n") {
		return false
	}
	if strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") || strings.TrimSpace(s) == "" {
		return false
	}
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		if line != strings.TrimSpace(line) || strings.ContainsFunc(line, needsEscape) {
			return false
		}
	}
	return true
}

// needsEscape reports what YAML cannot hold outside of double quotes, or takes for a line break.
func needsEscape(r rune) bool {
	return r < ' ' || 0x7f <= r && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffd ||
		r == 0xfffe || r == 0xffff
}

// compactJSON marshals without HTML escapes; what YAML cannot hold literally is escaped, so that the text may stand in
// a literal block. It ends without a newline.
func compactJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("render %T: %w", value, err)
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if !bytes.ContainsFunc(text, needsEscape) {
		return text, nil
	}
	var escaped bytes.Buffer
	for _, r := range string(text) {
		if needsEscape(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes(), nil
}
