package syntax

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Strict compares a document with the Go type that it will be decoded into. It reports each duplicate key, unknown field, value of a
// wrong type, and null. Decoders stop at the first, or report no position.
type Strict struct {
	Root   *yaml.Node
	Report func(p Path, at *yaml.Node, detail string)
	// Unknown, if set, is called for unknown fields instead of Report.
	Unknown func(p Path)
}

// Object checks a whole resource against the struct pointed to by target.
func (s Strict) Object(value any, target any) { s.All(value, reflect.TypeOf(target).Elem()) }

// All checks a value of any type, and that all readers read the same value.
func (s Strict) All(value any, target reflect.Type) {
	reported := make(map[string]bool)
	noting := Strict{Root: s.Root, Unknown: s.Unknown, Report: func(p Path, at *yaml.Node, detail string) {
		reported[p.String()] = true
		s.Report(p, at, detail)
	}}
	noting.duplicates(s.Root, nil, 0)
	noting.value(value, target, nil)
	readings := readings{report: func(p Path, at *yaml.Node, format string, args ...any) {
		if !reported[p.String()] {
			s.Report(p, at, fmt.Sprintf(format, args...))
		}
	}}
	readings.compare(s.Root, value, nil, 0)
}

func (s Strict) reportf(p Path, format string, args ...any) {
	place := Locate(s.Root, p)
	s.Report(p, place, fmt.Sprintf(format, args...))
}

// duplicates walks the tree, because the decoded value has each key once.
func (s Strict) duplicates(node *yaml.Node, p Path, depth int) {
	if depth > maxJSONDepth {
		return
	}
	switch node.Kind {
	case yaml.SequenceNode:
		for i, item := range node.Content {
			s.duplicates(item, p.At(i), depth+1)
		}
	case yaml.MappingNode:
		lines := make(map[string]int, len(node.Content)/2)
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			below := p.Field(key.Value)
			if line, twice := lines[key.Value]; twice {
				s.Report(below, key, fmt.Sprintf("is given twice (first on line %d)", line))
			}
			lines[key.Value] = key.Line
			s.duplicates(node.Content[i+1], below, depth+1)
		}
	default: // an alias repeats what is checked where it is defined
	}
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (s Strict) value(value any, target reflect.Type, p Path) {
	for target.Kind() == reflect.Pointer {
		target = target.Elem()
	}
	if value == nil {
		if len(p) > 1 && p[0].Key == "spec" {
			s.reportf(p, "is null; leave the field out instead")
		}
		return
	}
	if pointer := reflect.PointerTo(target); pointer.Implements(jsonUnmarshaler) || pointer.Implements(textUnmarshaler) {
		s.custom(value, target, p)
		return
	}
	switch target.Kind() {
	case reflect.Struct:
		s.structure(value, target, p)
	case reflect.Map:
		entries, ok := value.(map[string]any)
		if !ok {
			s.wrong(p, "an object", value)
			return
		}
		for _, key := range SortedKeys(entries) {
			s.value(entries[key], target.Elem(), p.Field(key))
		}
	case reflect.Slice:
		if target.Elem().Kind() == reflect.Uint8 {
			s.custom(value, target, p)
			return
		}
		items, ok := value.([]any)
		if !ok {
			s.wrong(p, "a list", value)
			return
		}
		for i, item := range items {
			s.value(item, target.Elem(), p.At(i))
		}
	default:
		s.scalar(value, target, p)
	}
}

func (s Strict) scalar(value any, target reflect.Type, p Path) {
	switch target.Kind() {
	case reflect.String:
		if _, ok := value.(string); !ok {
			s.wrong(p, "a text", value)
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			s.wrong(p, "true or false", value)
		}
	case reflect.Float32, reflect.Float64:
		if _, ok := value.(json.Number); !ok {
			s.wrong(p, "a number", value)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number, _ := value.(json.Number)
		whole, err := strconv.ParseInt(number.String(), 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && reflect.Zero(target).OverflowInt(whole):
			s.reportf(p, "%s is out of range", number)
		case err != nil:
			s.wrong(p, "a whole number", value)
		}
	default: // interfaces take anything
	}
}

// custom reports the error of a type that decodes itself.
func (s Strict) custom(value any, target reflect.Type, p Path) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(target).Interface())
	}
	if err != nil {
		s.reportf(p, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

func (s Strict) structure(value any, target reflect.Type, p Path) {
	entries, ok := value.(map[string]any)
	if !ok {
		s.wrong(p, "an object", value)
		return
	}
	fields := jsonFields(target)
	for _, key := range SortedKeys(entries) {
		field, known := fields[key]
		if !known && s.Unknown != nil {
			s.Unknown(p.Field(key))
			continue
		}
		if !known {
			s.reportf(p.Field(key), "unknown field%s", suggestion(key, SortedKeys(fields)))
			continue
		}
		s.value(entries[key], field, p.Field(key))
	}
}

func (s Strict) wrong(p Path, want string, value any) {
	hint := ""
	if place := ValueAt(s.Root, p); want == "a text" && place != nil && place.Kind == yaml.ScalarNode {
		hint = fmt.Sprintf(": put quotes around %s", place.Value)
	}
	s.reportf(p, "must be %s, is %s%s", want, describe(value), hint)
}

func describe(value any) string {
	switch v := value.(type) {
	case string:
		return "a text"
	case bool:
		return fmt.Sprintf("the boolean %t", v)
	case json.Number:
		return "the number " + v.String()
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

// jsonFields maps the JSON names of a struct's fields to their types, through embedded structs.
func jsonFields(target reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, target.NumField())
	for field := range target.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			maps.Copy(fields, jsonFields(field.Type))
		case name == "":
			fields[field.Name] = field.Type
		default:
			fields[name] = field.Type
		}
	}
	return fields
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// suggestion returns the known field that was probably meant.
func suggestion(key string, known []string) string {
	best, distance := "", 3
	for _, name := range known {
		if strings.EqualFold(name, key) {
			return fmt.Sprintf("; did you mean %s?", name)
		}
		if d := editDistance(key, name); d < distance && d < len(name) {
			best, distance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// editDistance returns the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, replace)
		}
	}
	return row[len(b)]
}
