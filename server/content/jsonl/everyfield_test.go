package jsonl

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit/check"
)

// notImported are the fields of an ExamContent that JSON Lines do not have, with the reason.
func notImported() map[string]string {
	return map[string]string{
		"spec.adopt":                "an option of the operator",
		"spec.deletionPolicy":       "an option of the operator",
		"spec.resyncInterval":       "an option of the operator",
		"spec.revision":             "an option of the operator",
		"spec.revisionHistoryLimit": "an option of the operator",
		"spec.suspend":              "an option of the operator",
		"spec.papers.verification":  "a reviewer seals the imported paper",
		"spec.papers.questionsFrom": "import decides which papers have chunks",
	}
}

// TestImportSetsEveryFieldOfAnExam sets every field of the neutral form, and requires every field of the spec.
func TestImportSetsEveryFieldOfAnExam(t *testing.T) {
	t.Parallel()
	var exam neutralExam
	var paper neutralPaper
	fill(reflect.ValueOf(&exam))
	fill(reflect.ValueOf(&paper))
	spec := exam.spec()
	spec.Papers = []v1alpha1.Paper{paper.paper("sha256:0")}
	for kind, value := range map[string]string{
		"choice": `"A"`, "choices": `["A"]`, "numeric": `1`, "text": `"x"`, "annulled": ``, "unmarkable": ``,
	} {
		var neutral neutralQuestion
		fill(reflect.ValueOf(&neutral))
		neutral.Answer.Kind, neutral.Answer.Value = kind, json.RawMessage(value)
		question, err := neutral.question()
		check.NoError(t, err)
		spec.Papers[0].Questions = append(spec.Papers[0].Questions, question)
	}
	fields := make(map[string]bool)
	collect(reflect.ValueOf(spec), "spec", fields)
	used := make(map[string]bool)
	for field, set := range fields {
		excepted := false
		for name := range notImported() {
			if field == name || strings.HasPrefix(field, name+".") {
				excepted, used[name] = true, true
			}
		}
		if set == excepted {
			t.Errorf("%s: imported: %t. Read it in neutral.go, or give notImported a reason; see CONTRIBUTING.md, \"Add a field to ExamContent\"", field, set)
		}
	}
	for name := range notImported() {
		check.Equal(t, used[name], true, "%s is a field", name)
	}
}

// fill sets all fields below a pointer.
func fill(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			value.Set(reflect.New(value.Type().Elem()))
		}
		fill(value.Elem())
	case reflect.Struct:
		for _, field := range value.Fields() {
			fill(field)
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(`{"x":1}`))
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0))
	case reflect.Map:
		value.Set(reflect.ValueOf(map[string]string{"A": "a"}))
	case reflect.String:
		value.SetString("x")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Float64:
		value.SetFloat(1)
	default:
		value.SetInt(1)
	}
}

// collect reports for each field without fields of its own whether any value sets it.
func collect(value reflect.Value, path string, fields map[string]bool) {
	of := value.Type()
	list := of.Kind() == reflect.Slice
	if list || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of.PkgPath() != reflect.TypeFor[v1alpha1.Paper]().PkgPath() || of.Kind() != reflect.Struct:
		fields[path] = fields[path] || !value.IsZero()
	case list:
		collect(reflect.Zero(of), path, fields)
		for i := range value.Len() {
			collect(value.Index(i), path, fields)
		}
	case value.Kind() == reflect.Pointer && value.IsNil():
		collect(reflect.Zero(of), path, fields)
	case value.Kind() == reflect.Pointer:
		collect(value.Elem(), path, fields)
	default:
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			collect(value.Field(i), path+"."+name, fields)
		}
	}
}
