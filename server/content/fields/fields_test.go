package fields

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/server/content/syntax"
	"examprep.dev/server/testkit/check"
)

// Each path of the table exists in the resource definition, or Limits would be silent about a misspelled one.
func TestPathsExistInTheResourceDefinition(t *testing.T) {
	t.Parallel()
	schema, err := ReadSchema()
	check.NoError(t, err)
	for _, record := range Records() {
		for _, field := range record.Fields {
			if field.Path == "" {
				continue
			}
			if found, _ := schema.at(record.Path, field.Path); found.Type == "" && found.XPreserveUnknownFields == nil {
				t.Errorf("%s: the resource has no field %s", record.Sheet, field.Path)
			}
		}
	}
}

func TestLimitsComeFromTheResourceDefinition(t *testing.T) {
	t.Parallel()
	schema, err := ReadSchema()
	check.NoError(t, err)
	for name, want := range map[string]struct {
		record   Record
		limits   string
		required bool
	}{
		"examKey":         {Exams(), "1 to 100 characters", true},
		"durationMinutes": {Exams(), "1 to 10080", false},
		"correct":         {Papers(), "more than 0, at most 1000", false},
		"publisher":       {Papers(), "1 to 300 characters", true},
		"A":               {Questions(), "2 to 11 options", false},
		"tolerance":       {Questions(), "at least 0", false},
		"answerKind":      {Questions(), "", true},
		"questionTypes":   {Sections(), "at most 50 texts, each 1 to 300 characters", false},
	} {
		field, ok := want.record.Column(name)
		if !ok {
			t.Fatalf("no column %s", name)
		}
		check.Equal(t, schema.Limits(want.record, field), want.limits, "limits of %s", name)
		check.Equal(t, schema.Required(want.record, field), want.required, "whether %s is required", name)
	}
}

func TestNamesOfPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{
		"answer.choice": {"answer", "answer.choice"}, "answer.tolerance": {"tolerance", "answer.tolerance"}, "options.C": {"C", "options.C"},
		"hasVisual": {"hasVisual", "has_visual"}, "sectionName": {"sectionName", "section_name"},
	} {
		check.Equal(t, Questions().ColumnOf(syntax.ParsePath(path)), want[0], "column of %s", path)
		check.Equal(t, Questions().JSONPath(syntax.ParsePath(path)).String(), want[1], "JSON path of %s", path)
	}
	check.Equal(t, Exams().JSONPath(syntax.ParsePath("studyPath.steps[3]")).String(), "study_path.study_path[3]", "JSON path")
	check.Equal(t, Exams().ColumnOf(syntax.ParsePath("papers[1]")), "", "column")
}

// Fields of the resource that files of other formats do not have: the operator's options, seals, and what is a record of its own.
func elsewhere(name string) bool {
	return slices.Contains([]string{
		"adopt", "deletionPolicy", "resyncInterval", "revision", "revisionHistoryLimit", "suspend", "papers", "verification", "questionsFrom",
	}, name)
}

// unlisted returns the fields below a schema that a record does not list.
func unlisted(schema *apiextensionsv1.JSONSchemaProps, record Record, prefix string) (missing []string) {
	for name := range schema.Properties {
		property := schema.Properties[name]
		listed := slices.ContainsFunc(record.Fields, func(f Field) bool { return f.Path == prefix+name })
		switch {
		case listed || elsewhere(name) || record.Sheet == "papers" && name == "questions":
		case len(property.Properties) > 0:
			missing = append(missing, unlisted(&property, record, prefix+name+".")...)
		default:
			missing = append(missing, prefix+name)
		}
	}
	return missing
}

func TestTheTableHasEveryFieldOfTheResource(t *testing.T) {
	t.Parallel()
	schema, err := ReadSchema()
	check.NoError(t, err)
	for _, record := range Records() {
		found, _ := schema.at(record.Path, "")
		if missing := unlisted(found, record, ""); len(missing) > 0 {
			t.Errorf("%s: the table lacks %v", record.Sheet, missing)
		}
	}
}
