package manifest

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

// strict compares a document with the Go type that it will be decoded into, and finds all of: keys given twice, unknown
// fields, values of a wrong type, nulls. (Decoders stop at the first, or do not say where.)
type strict struct {
	root   *yaml.Node
	report func(p path, at *yaml.Node, detail string)
	// unknown, when set, hears of unknown fields instead of report.
	unknown func(p path)
}

// object checks a whole resource against the struct pointed to by target.
func (s strict) object(value any, target any) { s.all(value, reflect.TypeOf(target).Elem()) }

// all checks a value of any type, and that every reader takes it for the same one.
func (s strict) all(value any, target reflect.Type) {
	reported := make(map[string]bool)
	noting := strict{root: s.root, unknown: s.unknown, report: func(p path, at *yaml.Node, detail string) {
		reported[p.String()] = true
		s.report(p, at, detail)
	}}
	noting.duplicates(s.root, nil, 0)
	noting.value(value, target, nil)
	readings := readings{report: func(p path, at *yaml.Node, format string, args ...any) {
		if !reported[p.String()] {
			s.report(p, at, fmt.Sprintf(format, args...))
		}
	}}
	readings.compare(s.root, value, nil, 0)
}

func (s strict) reportf(p path, format string, args ...any) {
	place := locate(s.root, p)
	s.report(p, place, fmt.Sprintf(format, args...))
}

// duplicates walks the tree as it is written: in the decoded value a key that stands twice is gone.
func (s strict) duplicates(node *yaml.Node, p path, depth int) {
	if depth > maxJSONDepth {
		return
	}
	switch node.Kind {
	case yaml.SequenceNode:
		for i, item := range node.Content {
			s.duplicates(item, p.at(i), depth+1)
		}
	case yaml.MappingNode:
		lines := make(map[string]int, len(node.Content)/2)
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			below := p.field(key.Value)
			if line, twice := lines[key.Value]; twice {
				s.report(below, key, fmt.Sprintf("is given twice (first on line %d)", line))
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

func (s strict) value(value any, target reflect.Type, p path) {
	for target.Kind() == reflect.Pointer {
		target = target.Elem()
	}
	if value == nil {
		if len(p) > 1 && p[0].key == "spec" {
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
		for _, key := range sortedKeys(entries) {
			s.value(entries[key], target.Elem(), p.field(key))
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
			s.value(item, target.Elem(), p.at(i))
		}
	default:
		s.scalar(value, target, p)
	}
}

func (s strict) scalar(value any, target reflect.Type, p path) {
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

// custom lets a type that decodes itself judge.
func (s strict) custom(value any, target reflect.Type, p path) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(target).Interface())
	}
	if err != nil {
		s.reportf(p, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

func (s strict) structure(value any, target reflect.Type, p path) {
	entries, ok := value.(map[string]any)
	if !ok {
		s.wrong(p, "an object", value)
		return
	}
	fields := jsonFields(target)
	for _, key := range sortedKeys(entries) {
		field, known := fields[key]
		if !known && s.unknown != nil {
			s.unknown(p.field(key))
			continue
		}
		if !known {
			s.reportf(p.field(key), "unknown field%s", suggestion(key, sortedKeys(fields)))
			continue
		}
		s.value(entries[key], field, p.field(key))
	}
}

func (s strict) wrong(p path, want string, value any) {
	hint := ""
	if place := valueAt(s.root, p); want == "a text" && place != nil && place.Kind == yaml.ScalarNode {
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

// jsonFields maps the names that encoding/json knows for a struct to their types, through embedded structs.
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

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// suggestion names the known field that was probably meant.
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

// editDistance is Levenshtein's: how many letters to insert, delete or replace.
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
