package syntax

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// MaxProblems is how many problems Check reports, and Decode returns, of one document.
const MaxProblems = 100

// Check reports duplicate keys, and text that readers of YAML read as different values, in a document: the first MaxProblems.
func (d *Document) Check(report func(p Path, at *yaml.Node, detail string)) {
	reported := make(map[string]bool)
	left := MaxProblems
	duplicates(d.Root, nil, 0, &left, func(p Path, at *yaml.Node, detail string) {
		reported[p.String()] = true
		report(p, at, detail)
	})
	found := readings{left: &left, report: func(p Path, at *yaml.Node, format string, args ...any) {
		if !reported[p.String()] {
			left--
			report(p, at, fmt.Sprintf(format, args...))
		}
	}}
	found.compare(d.Root, d.Value, nil, 0)
}

// duplicates walks the tree, because the decoded value has each key once. It reports at most left problems.
func duplicates(node *yaml.Node, p Path, depth int, left *int, report func(p Path, at *yaml.Node, detail string)) {
	if depth > maxJSONDepth || *left == 0 {
		return
	}
	switch node.Kind {
	case yaml.SequenceNode:
		for i, item := range node.Content {
			duplicates(item, p.At(i), depth+1, left, report)
		}
	case yaml.MappingNode:
		lines := make(map[string]int, len(node.Content)/2)
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			below := p.Field(key.Value)
			if line, twice := lines[key.Value]; twice && *left > 0 {
				*left--
				report(below, key, fmt.Sprintf("is given twice (first on line %d)", line))
			}
			lines[key.Value] = key.Line
			duplicates(node.Content[i+1], below, depth+1, left, report)
		}
	default: // an alias repeats what is checked where it is defined
	}
}
