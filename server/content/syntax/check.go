package syntax

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Check reports duplicate keys, and text that readers of YAML read as different values, in a document.
func (d *Document) Check(report func(p Path, at *yaml.Node, detail string)) {
	reported := make(map[string]bool)
	duplicates(d.Root, nil, 0, func(p Path, at *yaml.Node, detail string) {
		reported[p.String()] = true
		report(p, at, detail)
	})
	found := readings{report: func(p Path, at *yaml.Node, format string, args ...any) {
		if !reported[p.String()] {
			report(p, at, fmt.Sprintf(format, args...))
		}
	}}
	found.compare(d.Root, d.Value, nil, 0)
}

// duplicates walks the tree, because the decoded value has each key once.
func duplicates(node *yaml.Node, p Path, depth int, report func(p Path, at *yaml.Node, detail string)) {
	if depth > maxJSONDepth {
		return
	}
	switch node.Kind {
	case yaml.SequenceNode:
		for i, item := range node.Content {
			duplicates(item, p.At(i), depth+1, report)
		}
	case yaml.MappingNode:
		lines := make(map[string]int, len(node.Content)/2)
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			below := p.Field(key.Value)
			if line, twice := lines[key.Value]; twice {
				report(below, key, fmt.Sprintf("is given twice (first on line %d)", line))
			}
			lines[key.Value] = key.Line
			duplicates(node.Content[i+1], below, depth+1, report)
		}
	default: // an alias repeats what is checked where it is defined
	}
}
