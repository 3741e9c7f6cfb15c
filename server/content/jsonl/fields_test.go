package jsonl

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/content/fields"
	"examprep.dev/server/testkit/check"
)

// names returns the paths of the fields that decoding fills, in order. It does not look into lists, and into raw JSON and maps of texts.
func names(of reflect.Type, prefix string) []string {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return []string{strings.TrimSuffix(prefix, ".")}
	}
	var found []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "resources" { // a record of its own
			found = append(found, prefix+name)
			continue
		}
		found = append(found, names(field.Type, prefix+name+".")...)
	}
	return found
}

func TestTheTableHasTheFieldsThatAreRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		record fields.Record
		value  any
	}{
		{fields.Exams(), neutralExam{}}, {fields.Sections(), neutralSection{}}, {fields.Papers(), neutralPaper{}}, {fields.Questions(), neutralQuestion{}},
	} {
		var listed []string
		for _, field := range test.record.Fields {
			if field.JSON != "" {
				listed = append(listed, field.JSON)
			}
		}
		read := names(reflect.TypeOf(test.value), "")
		slices.Sort(listed)
		slices.Sort(read)
		check.Slices(t, listed, read, "fields of a "+test.record.Name)
	}
}
