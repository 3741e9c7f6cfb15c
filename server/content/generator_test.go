package content

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// generator makes documents with a value at, below and above each bound of a schema.
type generator struct {
	t    *testing.T
	kind string
	base map[string]any
	// spec is the schema of base's spec.
	spec apiextensionsv1.JSONSchemaProps
	// all are the documents, by name.
	all map[string]string
}

func newGenerator(t *testing.T, plural, base string) *generator {
	t.Helper()
	crd, err := v1alpha1.CRD(plural)
	check.NoError(t, err)
	g := &generator{t: t, kind: plural, spec: crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]}
	check.NoError(t, yaml.Unmarshal([]byte(base), &g.base))
	return g
}

func (g *generator) encode(value any) string {
	text, err := json.Marshal(value)
	check.NoError(g.t, err)
	return string(text)
}

// add makes a document with another value at a path of keys and indexes; remove removes the value.
func (g *generator) add(what string, value any, path ...any) {
	name := g.kind
	for _, step := range path {
		name += fmt.Sprintf("/%v", step)
	}
	g.all[name+": "+what] = g.with(value, path...)
}

// with returns the document with another value at a path.
func (g *generator) with(value any, path ...any) string {
	changed := map[string]any{}
	testkit.Decode(g.t, []byte(g.encode(g.base)), &changed)
	set(changed, path, value)
	return g.encode(changed)
}

type removed struct{}

// set sets a value below at, of maps and lists.
func set(at any, path []any, value any) {
	last := len(path) == 1
	switch at := at.(type) {
	case map[string]any:
		key, _ := path[0].(string)
		switch {
		case !last:
			set(at[key], path[1:], value)
		case value == removed{}:
			delete(at, key)
		default:
			at[key] = value
		}
	case []any:
		index, _ := path[0].(int)
		if last {
			at[index] = value
		} else {
			set(at[index], path[1:], value)
		}
	}
}

// walk makes the documents of a value and of all below it.
func (g *generator) walk(schema *apiextensionsv1.JSONSchemaProps, value any, path ...any) {
	g.add("of another type", map[string]any{"string": 1, "integer": "1", "number": "1", "boolean": "true", "array": "a", "object": []any{}}[schema.Type], path...)
	if schema.XPreserveUnknownFields != nil {
		return
	}
	g.add("removed", removed{}, path...)
	switch value := value.(type) {
	case string:
		g.text(schema, value, path)
	case float64:
		g.number(schema, path)
	case []any:
		g.list(schema, value, path)
		for i, item := range value {
			g.walk(schema.Items.Schema, item, append(slices.Clone(path), i)...)
		}
	case map[string]any:
		g.add("with an unknown field", "x", append(slices.Clone(path), "unknown")...)
		for _, bound := range []*int64{schema.MinProperties, schema.MaxProperties} {
			if bound != nil {
				for size := *bound - 1; size <= *bound+1; size++ {
					g.add(fmt.Sprintf("%d entries", size), letters(size), path...)
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			property, known := schema.Properties[key]
			if !known && schema.AdditionalProperties != nil {
				property, known = *schema.AdditionalProperties.Schema, true
			}
			if known {
				g.walk(&property, value[key], append(slices.Clone(path), key)...)
			}
		}
	}
}

func (g *generator) text(schema *apiextensionsv1.JSONSchemaProps, value string, path []any) {
	g.add("empty", "", path...)
	if schema.Pattern != "" || len(schema.XValidations) > 0 {
		g.add("of another form", value+"!", path...)
	}
	for _, allowed := range schema.Enum {
		var text string
		testkit.Decode(g.t, allowed.Raw, &text)
		g.add(text, text, path...)
		g.add("other than "+text, text+"x", path...)
	}
	for what, bound := range map[string]*int64{"shortest": schema.MinLength, "longest": schema.MaxLength} {
		if bound == nil {
			continue
		}
		for offset := -1; offset <= 1; offset++ {
			size := int(*bound) + offset
			if pad := size - len(value); pad >= 0 {
				g.add(fmt.Sprintf("%s %+d", what, offset), value+strings.Repeat("x", pad), path...)
				if offset >= 0 {
					g.add(fmt.Sprintf("%s %+d, of two bytes", what, offset), value+strings.Repeat("é", pad), path...)
				}
			} else if size >= 0 {
				g.add(fmt.Sprintf("%s %+d", what, offset), value[:size], path...)
			}
		}
	}
}

func (g *generator) number(schema *apiextensionsv1.JSONSchemaProps, path []any) {
	g.add("a fraction", 1.5, path...)
	g.add("zero", 0, path...)
	g.add("huge", 99999999999, path...)
	for _, bound := range []*float64{schema.Minimum, schema.Maximum} {
		if bound != nil {
			for offset := -1.0; offset <= 1; offset++ {
				g.add(fmt.Sprint(*bound+offset), *bound+offset, path...)
			}
		}
	}
}

func (g *generator) list(schema *apiextensionsv1.JSONSchemaProps, value []any, path []any) {
	g.add("without entries", []any{}, path...)
	g.add("with an entry twice", append(slices.Clone(value), value[0]), path...)
	if schema.MaxItems == nil || schema.Items.Schema.Enum != nil {
		return
	}
	for offset := -1; offset <= 1; offset++ {
		size := int(*schema.MaxItems) + offset
		g.add(fmt.Sprintf("%d entries", size), g.entries(schema.Items.Schema, value[0], size), path...)
	}
}

// letters are options, as many as size.
func letters(size int64) map[string]any {
	options := make(map[string]any)
	for i := range size {
		options[string(rune('A'+i))] = "text"
	}
	return options
}

// entries are entries that differ from each other.
func (g *generator) entries(schema *apiextensionsv1.JSONSchemaProps, first any, size int) (entries []any) {
	for i := range size {
		var entry any
		testkit.Decode(g.t, []byte(g.encode(first)), &entry)
		switch value := entry.(type) {
		case string:
			entry = value + fmt.Sprint(i)
			if schema.Pattern == "^[A-Z]$" {
				entry = string(rune('A' + i))
			} else if strings.HasPrefix(value, "service_") {
				entry = fmt.Sprintf("service_%08x", i)
			}
		case map[string]any:
			for _, key := range []string{"paperID", "name", "title"} {
				if text, ok := value[key].(string); ok {
					value[key] = text + fmt.Sprint(i)
				}
			}
			if _, ok := value["number"]; ok {
				value["number"] = i + 1
			}
		}
		entries = append(entries, entry)
	}
	return entries
}
