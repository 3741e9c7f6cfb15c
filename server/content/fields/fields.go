package fields

import (
	"slices"
	"strings"

	"examprep.dev/server/content/syntax"
)

// Type is the type of a field's values.
type Type string

// The types.
const (
	Text    Type = "text"
	Whole   Type = "whole number"
	Number  Type = "number"
	Boolean Type = "true or false"
	Texts   Type = "list of texts"
	Object  Type = "JSON object"
	Objects Type = "list of objects"
	// Answer is a value whose type the field answerKind or answer.kind decides.
	Answer Type = "by kind"
)

// Field is one field of a record.
type Field struct {
	// Path is the path in the resource below the record, such as provenance.sourceURL. It is empty if the resource has no such field.
	Path string
	// JSON is the path in JSON Lines, and Column the name of the column of a sheet. The format has no such field if it is empty.
	JSON, Column string
	// Through is the last column if the field has a column for each letter from Column on.
	Through string
	Type    Type
	// Needed reports whether a record must have the field although the resource definition does not require it.
	Needed bool
	// Example is a value as a cell of the template has it; empty: none. For Through they are the first options, separated by semicolons.
	Example string
	// About is the meaning of the field, in one or two sentences.
	About string
}

// Record is a kind of record: a line of JSON Lines, or a row of a sheet.
type Record struct {
	// Name is the singular, such as exam. Sheet is the name of the sheet, or of the CSV file without its extension.
	Name, Sheet string
	// File is the file of JSON Lines, and Within the list in it that has the records; empty: each line or entry is one.
	File, Within string
	// Path is the path of the records in the resource.
	Path string
	// Optional reports whether the sheet can be missing.
	Optional bool
	// About is the meaning of a record.
	About  string
	Fields []Field
}

// Columns returns the names of all columns of a field, in order.
func (f Field) Columns() []string {
	if f.Column == "" || f.Through == "" {
		return []string{f.Column}[:min(1, len(f.Column))]
	}
	var names []string
	for letter := f.Column[0]; letter <= f.Through[0]; letter++ {
		names = append(names, string(letter))
	}
	return names
}

// Columns returns the names of all columns of a record, in the order of the template.
func (r Record) Columns() []string {
	var names []string
	for _, field := range r.Fields {
		names = append(names, field.Columns()...)
	}
	return names
}

// Example returns an example of a column, or "".
func (r Record) Example(column string) string {
	field, _ := r.Column(column)
	if field.Through == "" {
		return field.Example
	}
	options := strings.Split(field.Example, "; ")
	if i := int(column[0] - field.Column[0]); i < len(options) {
		return options[i]
	}
	return ""
}

// Column returns the field with a column, and reports whether there is one.
func (r Record) Column(name string) (Field, bool) {
	for _, field := range r.Fields {
		if slices.Contains(field.Columns(), name) {
			return field, true
		}
	}
	return Field{}, false
}

// ColumnOf returns the column with the value at a path below the record, or "". For a path below a field it is the field's column.
func (r Record) ColumnOf(path syntax.Path) string {
	for end := len(path); end > 0; end-- {
		name := path[:end].String()
		for _, field := range r.Fields {
			switch {
			case field.Column == "":
			case field.Path == name && field.Through == "":
				return field.Column
			case field.Through != "" && end > 1 && field.Path == path[:end-1].String():
				return path[end-1].Key
			}
		}
	}
	return ""
}

// JSONPath returns the path in JSON Lines of a path below the record. Steps that have no other name stay as they are.
func (r Record) JSONPath(path syntax.Path) syntax.Path {
	names := make(map[string]string)
	for _, field := range r.Fields {
		from, to := syntax.ParsePath(field.Path), syntax.ParsePath(field.JSON)
		for i := 0; len(from) == len(to) && i < len(from); i++ {
			names[from[i].Key] = to[i].Key
		}
	}
	translated := make(syntax.Path, len(path))
	for i, step := range path {
		if name, ok := names[step.Key]; ok {
			step.Key = name
		}
		translated[i] = step
	}
	return translated
}
