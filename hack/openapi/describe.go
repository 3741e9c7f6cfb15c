package main

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// describe adds to each description below node the known values of an open enumeration (x-extensible-enum), and the codes of an
// error response (x-error-codes).
func describe(node *yaml.Node) {
	if node.Kind == yaml.MappingNode {
		if values := member(node, "x-extensible-enum"); values != nil {
			appendText(node, "Known values: "+list(values, "and")+". New values can appear.")
		}
		if codes := member(node, "x-error-codes"); codes != nil {
			appendText(node, "`error` is "+list(codes, "or")+".")
		}
	}
	for _, child := range node.Content {
		describe(child)
	}
}

// appendText appends a sentence to the description of a schema or response. A description of several paragraphs gets another one.
func appendText(node *yaml.Node, sentence string) {
	description := member(node, "description")
	if description == nil {
		node.Content = append(node.Content, scalar("description"), scalar(sentence))
		return
	}
	text, separator := strings.TrimSuffix(description.Value, "\n"), " "
	if strings.Contains(text, "\n\n") {
		separator = "\n\n"
	}
	*description = *scalar(text + separator + sentence)
}

// list returns the values as code, with a comma between them and the word before the last.
func list(values *yaml.Node, word string) string {
	var text strings.Builder
	for i, value := range values.Content {
		switch {
		case i == 0:
		case i == len(values.Content)-1:
			text.WriteString(" " + word + " ")
		default:
			text.WriteString(", ")
		}
		text.WriteString("`" + value.Value + "`")
	}
	return text.String()
}
