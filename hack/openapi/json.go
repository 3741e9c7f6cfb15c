package main

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// convert returns the YAML as JSON with the change applied. It keeps the order of names.
func convert(source []byte, change func(*yaml.Node) error) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("read contract.yaml: %w", err)
	}
	if err := change(&root); err != nil {
		return nil, fmt.Errorf("complete contract.yaml: %w", err)
	}
	// The encoder refuses names that are given twice and invalid UTF-8.
	out, err := encode(&root, jsontext.WithIndent("  "), jsontext.SpaceAfterColon(true))
	if err != nil {
		return nil, fmt.Errorf("convert contract.yaml: %w", err)
	}
	return append(out, '\n'), nil
}

// encode returns a node as JSON, without a line end.
func encode(node *yaml.Node, options ...jsontext.Options) ([]byte, error) {
	var out bytes.Buffer
	err := write(jsontext.NewEncoder(&out, options...), node)
	return bytes.TrimSpace(out.Bytes()), err
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
