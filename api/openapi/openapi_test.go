package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"examprep.dev/api/openapi"
	"examprep.dev/server/testkit/check"
)

// contract is the document as nested maps and lists.
type contract struct {
	t    *testing.T
	root map[string]any
}

func newContract(t *testing.T) contract {
	t.Helper()
	c := contract{t: t}
	check.NoError(t, json.Unmarshal(openapi.JSON(), &c.root))
	return c
}

func object(value any, names ...string) map[string]any {
	for _, name := range names {
		parent, _ := value.(map[string]any)
		value = parent[name]
	}
	found, _ := value.(map[string]any)
	return found
}

// walk visits value and all that it contains or refers to, each component once. The place is for messages.
func (c contract) walk(value any, place string, seen map[string]bool, visit func(place string, node map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		if target, is := value["$ref"].(string); is {
			if !seen[target] {
				seen[target] = true
				c.walk(object(c.root, strings.Split(strings.TrimPrefix(target, "#/"), "/")...), target, seen, visit)
			}
			return
		}
		visit(place, value)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if name != "example" && name != "examples" {
				c.walk(value[name], place+"/"+name, seen, visit)
			}
		}
	case []any:
		for i, element := range value {
			c.walk(element, fmt.Sprintf("%s/%d", place, i), seen, visit)
		}
	}
}

// operations yields the operations of paths.
func (c contract) operations(yield func(id string, operation map[string]any) bool) {
	for _, path := range slices.Sorted(maps.Keys(object(c.root, "paths"))) {
		item := object(c.root, "paths", path)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			operation := object(item, method)
			if id, is := operation["operationId"].(string); is && !yield(id, operation) {
				return
			}
		}
	}
}

func TestComponentNamesAreUniqueOverAllSections(t *testing.T) {
	c, sections := newContract(t), map[string]string{}
	for section := range object(c.root, "components") {
		for name := range object(c.root, "components", section) {
			if other, taken := sections[name]; taken {
				t.Errorf("%s is a component in %s and in %s", name, other, section)
			}
			sections[name] = section
		}
	}
}

func TestSchemasHaveOneTypeAndAnchoredPatterns(t *testing.T) {
	c := newContract(t)
	c.walk(c.root, "", map[string]bool{}, func(place string, node map[string]any) {
		if _, is := node["type"].([]any); is {
			t.Errorf("%s has several types", place)
		}
		if pattern, is := node["pattern"].(string); is && (!strings.HasPrefix(pattern, "^") || !strings.HasSuffix(pattern, "$")) {
			t.Errorf("%s: the pattern %s is not anchored", place, pattern)
		}
	})
}

// A generator makes a type of a format, and a program passes what a response gives to the next request.
func TestTextsOfOneNameHaveOneType(t *testing.T) {
	c, types := newContract(t), map[string]map[string]string{}
	c.walk(c.root, "", map[string]bool{}, func(place string, node map[string]any) {
		for name := range object(node, "properties") {
			property := object(node, "properties", name)
			if target, is := property["$ref"].(string); is {
				property = object(c.root, strings.Split(strings.TrimPrefix(target, "#/"), "/")...)
			}
			format, _ := property["format"].(string)
			if property["type"] != "string" || format == "uri" { // an address is a text in every language
				continue
			}
			if types[name] == nil {
				types[name] = map[string]string{}
			}
			types[name][format] = place
		}
	})
	if len(types["attempt_id"]) == 0 {
		t.Fatal("no schema has attempt_id: the test sees nothing")
	}
	for name, formats := range types {
		if len(formats) > 1 {
			t.Errorf("%s has several formats, in %v", name, formats)
		}
	}
}

// Clients must accept new values in responses. A generator makes a closed type of an enum.
func TestEnumerationsInResponsesAreOpen(t *testing.T) {
	c := newContract(t)
	for id, operation := range c.operations {
		c.walk(operation["responses"], id, map[string]bool{}, func(place string, node map[string]any) {
			if node["enum"] != nil {
				t.Errorf("%s is closed by enum", place)
			}
			if node["x-extensible-enum"] != nil && node["type"] != "string" {
				t.Errorf("%s is not a string", place)
			}
		})
	}
}

// Generators make a field with a default a required one.
func TestFieldsOfBodiesHaveNoDefaultKeyword(t *testing.T) {
	c := newContract(t)
	for id, operation := range c.operations {
		c.walk(operation["requestBody"], id, map[string]bool{}, func(place string, node map[string]any) {
			if node["default"] != nil {
				t.Errorf("%s has the keyword default", place)
			}
			value := node["x-default"]
			if text, _ := node["description"].(string); value != nil && !strings.Contains(strings.ReplaceAll(text, "`", ""), fmt.Sprintf("Default: %v.", value)) {
				t.Errorf("%s: the description does not say the default %v", place, value)
			}
		})
	}
}

func TestEveryErrorHasOneSchema(t *testing.T) {
	c := newContract(t)
	for id, operation := range c.operations {
		for status, response := range object(operation, "responses") {
			if status < "4" {
				continue
			}
			if target, is := object(response)["$ref"].(string); is {
				response = object(c.root, strings.Split(strings.TrimPrefix(target, "#/"), "/")...)
			}
			check.Equal(t, object(response, "content", "application/json", "schema")["$ref"], "#/components/schemas/Error", "%s %s: schema", id, status)
		}
	}
}

func TestEveryOperationHasExamplesAndSamples(t *testing.T) {
	c, count := newContract(t), 0
	for id, operation := range c.operations {
		count++
		if body := object(operation, "requestBody"); body != nil && object(body, "content", "application/json")["example"] == nil {
			t.Errorf("%s has no example of its request", id)
		}
		for status, response := range object(operation, "responses") {
			media := object(response, "content", "application/json")
			if status < "3" && media != nil && media["example"] == nil && media["examples"] == nil {
				t.Errorf("%s has no example of its response %s", id, status)
			}
		}
		var languages []string
		samples, _ := operation["x-codeSamples"].([]any)
		for _, sample := range samples {
			language, _ := object(sample)["lang"].(string)
			languages = append(languages, language)
		}
		check.Equal(t, strings.Join(languages, " "), "Shell TypeScript Go", "%s: languages of its samples", id)
	}
	if count < 30 {
		t.Errorf("only %d operations were found", count)
	}
}
