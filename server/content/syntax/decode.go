package syntax

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsjson "sigs.k8s.io/json"
)

// FieldProblem is a value that a type cannot hold.
type FieldProblem struct {
	At     Path
	Detail string
	// Unknown reports whether the type has no such field.
	Unknown bool
}

// Decode decodes a document like the API server: names are case-sensitive. But a null is read as an absent field. It returns the unknown
// fields, or else the first value of a wrong type, in target or in each item of a slice: the first MaxProblems. Then target is not complete.
// Check reports duplicate names.
func (d *Document) Decode(target any) []FieldProblem {
	slice := reflect.ValueOf(target).Elem()
	var items []json.RawMessage
	if slice.Kind() != reflect.Slice || json.Unmarshal(d.JSON, &items) != nil {
		return d.decode(d.JSON, target, nil)
	}
	var problems []FieldProblem
	slice.Set(reflect.MakeSlice(slice.Type(), len(items), len(items)))
	for i, item := range items {
		if len(problems) >= MaxProblems {
			return problems[:MaxProblems]
		}
		problems = append(problems, d.decode(item, slice.Index(i).Addr().Interface(), Path{}.At(i))...)
	}
	return problems
}

func (d *Document) decode(text []byte, target any, at Path) []FieldProblem {
	strictErrors, err := sigsjson.UnmarshalStrict(text, target)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = at.Join(ParsePath(wrong.Field))
		return []FieldProblem{{At: at, Detail: typeDetail(wrong) + hint(wrong, ValueAt(d.Root, at))}}
	} else if err != nil {
		return []FieldProblem{{At: at, Detail: strings.TrimPrefix(err.Error(), "json: ")}}
	}
	var problems []FieldProblem
	for _, unknown := range UnknownFields(strictErrors) {
		problems = append(problems, FieldProblem{At: at.Join(ParsePath(unknown)), Detail: "unknown field", Unknown: true})
	}
	return problems
}

// UnknownFields returns the paths of unknown fields among the strict errors of sigs.k8s.io/json.
func UnknownFields(strictErrors []error) (paths []string) {
	for _, strictError := range strictErrors {
		unknown, ok := errors.AsType[sigsjson.FieldError](strictError)
		if ok && strings.HasPrefix(unknown.Error(), "unknown field") {
			paths = append(paths, unknown.FieldPath())
		}
	}
	return paths
}

// typeDetail describes a value of a wrong type.
func typeDetail(wrong *json.UnmarshalTypeError) string {
	want := wrong.Type.String()
	switch kind := wrong.Type.Kind(); {
	case kind == reflect.String:
		want = "a text"
	case kind == reflect.Bool:
		want = "true or false"
	case reflect.Int <= kind && kind <= reflect.Uint64:
		want = "a whole number"
	case kind == reflect.Float64:
		want = "a number"
	case kind == reflect.Slice:
		want = "a list"
	case kind == reflect.Struct || kind == reflect.Map:
		want = "an object"
	}
	number, isNumber := strings.CutPrefix(wrong.Value, "number ")
	switch {
	case isNumber && want == "a whole number" && strings.Trim(number, "-0123456789") == "":
		return shown(number) + " is out of range"
	case isNumber:
		return fmt.Sprintf("must be %s, is the number %s", want, shown(number))
	}
	names := map[string]string{"string": "a text", "bool": "a boolean", "array": "a list", "object": "an object", "number": "a number"}
	return fmt.Sprintf("must be %s, is %s", want, names[wrong.Value])
}

// hint describes how to make a text of a value that YAML reads as another type.
func hint(wrong *json.UnmarshalTypeError, value *yaml.Node) string {
	if wrong.Type.Kind() != reflect.String || value == nil || value.Kind != yaml.ScalarNode {
		return ""
	}
	return ": put quotes around " + shown(value.Value)
}
