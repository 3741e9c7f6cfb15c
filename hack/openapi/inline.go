package main

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// inlineWebhooks replaces the references of webhooks to parameters and schemas by these components, and removes a component that
// nothing else refers to. oapi-codegen drops each component that only webhooks refer to, and its code does not compile then.
func inlineWebhooks(root *yaml.Node) {
	components := member(root, "components")
	inlined := map[string]bool{}
	inline(member(root, "webhooks"), components, inlined)
	for removeUnused(root, components, inlined) {
	}
}

// removeUnused removes the components in inlined that no reference names, and reports whether it removed one.
func removeUnused(root, components *yaml.Node, inlined map[string]bool) (removed bool) {
	used := map[string]bool{}
	collectReferences(root, used)
	for kind, section := range members(components) {
		pairs := slices.Collect(slices.Chunk(section.Content, 2))
		kept := slices.DeleteFunc(slices.Clone(pairs), func(pair []*yaml.Node) bool {
			name := "#/components/" + kind + "/" + pair[0].Value
			return inlined[name] && !used[name]
		})
		section.Content = slices.Concat(kept...)
		removed = removed || len(kept) < len(pairs)
	}
	return removed
}

// inline replaces references to parameters and schemas below node, and adds them to inlined.
func inline(node, components *yaml.Node, inlined map[string]bool) {
	if node == nil {
		return
	}
	if target := member(node, "$ref"); target != nil {
		kind, name, _ := strings.Cut(strings.TrimPrefix(target.Value, "#/components/"), "/")
		component := member(member(components, kind), name)
		if kind != "parameters" && kind != "schemas" || component == nil {
			return
		}
		inlined[target.Value] = true
		*node = *clone(component)
	}
	for _, child := range node.Content {
		inline(child, components, inlined)
	}
}

// clone returns a deep copy.
func clone(node *yaml.Node) *yaml.Node {
	copied := *node
	copied.Content = make([]*yaml.Node, len(node.Content))
	for i, child := range node.Content {
		copied.Content[i] = clone(child)
	}
	return &copied
}

// collectReferences adds the targets of the references below node to used.
func collectReferences(node *yaml.Node, used map[string]bool) {
	if target := member(node, "$ref"); target != nil {
		used[target.Value] = true
	}
	for _, child := range node.Content {
		collectReferences(child, used)
	}
}
