package openapi

import (
	"bytes"
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var document string

// JSON returns the complete document as compact JSON, in the order in which it is written: readers see it in that order. Each
// call converts the document again, so callers should keep the result.
func JSON() ([]byte, error) { return convert([]byte(document), complete) }

// convert turns YAML into JSON that says the same, but for the change.
func convert(source []byte, change func(*yaml.Node) error) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	if err := change(&root); err != nil {
		return nil, fmt.Errorf("complete openapi.yaml: %w", err)
	}
	var out bytes.Buffer
	// The encoder refuses names that are given twice and invalid UTF-8.
	if err := write(jsontext.NewEncoder(&out), &root); err != nil {
		return nil, fmt.Errorf("convert openapi.yaml: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}

func write(e *jsontext.Encoder, node *yaml.Node) error {
	switch node.Kind {
	case yaml.DocumentNode:
		return write(e, node.Content[0])
	case yaml.MappingNode:
		return writeAll(e, jsontext.BeginObject, node.Content, jsontext.EndObject)
	case yaml.SequenceNode:
		return writeAll(e, jsontext.BeginArray, node.Content, jsontext.EndArray)
	case yaml.ScalarNode:
		return writeScalar(e, node)
	default:
		return fmt.Errorf("line %d: aliases have no counterpart in JSON", node.Line)
	}
}

// writeAll writes what is between begin and end; a mapping's content is names and values in turn.
func writeAll(e *jsontext.Encoder, begin jsontext.Token, content []*yaml.Node, end jsontext.Token) error {
	if err := e.WriteToken(begin); err != nil {
		return err
	}
	for _, node := range content {
		if err := write(e, node); err != nil {
			return err
		}
	}
	return e.WriteToken(end)
}

// writeScalar writes numbers as the document does, so that none is rounded.
func writeScalar(e *jsontext.Encoder, node *yaml.Node) error {
	var err error
	switch node.ShortTag() {
	case "!!null":
		err = e.WriteToken(jsontext.Null)
	case "!!bool", "!!int", "!!float":
		err = e.WriteValue(jsontext.Value(node.Value))
	case "!!str":
		err = e.WriteToken(jsontext.String(node.Value))
	default:
		err = fmt.Errorf("%s has no counterpart in JSON", node.ShortTag())
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	return nil
}
