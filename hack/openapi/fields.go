package main

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fields returns the properties of an object, of the elements of an array, or of the parts of a combination.
func (r *renderer) fields(schema *yaml.Node) []field {
	schema = r.resolve(schema)
	if items := member(schema, "items"); items != nil {
		return r.fields(items)
	}
	var all []field
	if parts := member(schema, "allOf"); parts != nil {
		for _, part := range parts.Content {
			all = append(all, r.fields(part)...)
		}
	}
	var required []string
	if list := member(schema, "required"); list != nil {
		for _, name := range list.Content {
			required = append(required, name.Value)
		}
	}
	for name, property := range members(member(schema, "properties")) {
		all = append(all, r.field(name, property, slices.Contains(required, name)))
	}
	return all
}

func (r *renderer) field(name string, schema *yaml.Node, required bool) field {
	resolved := r.resolve(schema)
	f := field{Name: name, Type: r.typeOf(resolved), Required: required, Description: r.prose(resolved), Fields: r.fields(resolved)}
	if items := member(resolved, "items"); items != nil && len(f.Fields) == 0 {
		f.Description += r.prose(r.resolve(items))
	}
	return f
}

// typeOf describes the type, format and bounds of a schema.
func (r *renderer) typeOf(schema *yaml.Node) string {
	name := text(schema, "type")
	if items := member(schema, "items"); items != nil {
		name = "array of " + r.typeOf(r.resolve(items))
	}
	if format := text(schema, "format"); format != "" && format != "int64" {
		name += " (" + format + ")"
	}
	if member(schema, "allOf") != nil {
		name = "object"
	}
	parts := []string{name}
	if values := member(schema, "enum"); values != nil {
		parts = append(parts, "one of "+strings.ReplaceAll(list(values, "or"), "`", ""))
	}
	if value := text(schema, "const"); value != "" {
		parts = append(parts, "always "+value)
	}
	parts = append(parts, bounds(schema, "minLength", "maxLength", "characters"), bounds(schema, "minItems", "maxItems", "elements"),
		bounds(schema, "minimum", "maximum", ""))
	if value := text(schema, "default"); value != "" {
		parts = append(parts, "default "+value)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// bounds says the minimum and maximum of a schema in a unit.
func bounds(schema *yaml.Node, least, most, unit string) string {
	low, high := text(schema, least), text(schema, most)
	if high == "9007199254740991" { // of JSON numbers, not of the service
		high = ""
	}
	switch {
	case low == "" && high == "":
		return ""
	case low == high:
		return strings.TrimSpace(low + " " + unit)
	case high == "" && low == "1" && unit != "":
		return "not empty"
	case high == "":
		return strings.TrimSpace("at least " + low + " " + unit)
	case low == "":
		return strings.TrimSpace("at most " + high + " " + unit)
	default:
		return strings.TrimSpace(fmt.Sprintf("%s to %s %s", low, high, unit))
	}
}
