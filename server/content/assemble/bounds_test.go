package assemble

import (
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

// boundedExam sets every field of an ExamContent that has a bound of its own.
const boundedExam = `
spec:
  examKey: xx-sample
  name: Sample
  category: samples
  country: Spain
  countryCode: ES
  durationMinutes: 90
  sections: [{name: All, durationMinutes: 60, questions: 2, questionTypes: [single_choice], skills: [reading]}]
  resources:
    officialSites: [{title: Board, url: "https://example.org/"}]
    pastQuestionsSources: [{title: Board, url: "https://example.org/"}]
  studyPath: {weeks: 2, hoursTotal: 7.5, steps: [{week: 1}]}
  papers:
  - paperID: xx-sample-2023
    title: Sample
    subject: Everything
    year: 2023
    durationMinutes: 30
    language: pt
    marking: {correct: 1000, incorrect: -1, unanswered: 0}
    provenance: {publisher: Board, sourceURL: "https://example.org/", sourceDigest: "%[1]s", license: CC0-1.0}
    verification: {by: R. Viewer, at: "2026-01-31", digest: "%[1]s"}
    questions:
    - {section: 1, sectionName: One, number: 1, prompt: "One?", options: {A: one, B: two}, answer: {choice: B}, explanation: So., page: 3, topic: Ones}
    - {section: 1, number: 2, prompt: "Word?", answer: {text: word}}
`

// bound is one bound of the schema: the value at it, and the one just beyond.
type bound struct {
	path     string
	at, over any
}

// laxer are the bounds which the catalogue does not have, because it has them from the schema alone or takes more from
// chunks, which the API server never sees.
func laxer() map[string]string {
	return map[string]string{
		"spec.category": "a name's bound holds", "spec.country": "a name's bound holds",
		"spec.papers[].subject": "a name's bound holds", "spec.papers[].verification.by": "a name's bound holds",
		"spec.studyPath.weeks":              "any number will do",
		"spec.papers[].questions[].section": "chunks may count further", "spec.papers[].questions[].number": "chunks may count further",
		"spec.papers[].marking.incorrect": "less than for a right one is enough for it",
		"spec.papers[].title":             "a paper without one is shown by its ID",
		"spec.durationMinutes":            "0 is none", "spec.papers[].durationMinutes": "0 is none",
		"spec.sections[].durationMinutes": "0 is none", "spec.sections[].questions": "0 is none", "spec.papers[].questions[].page": "0 is none",
	}
}

// The catalogue accepts a value at each bound of the schema and refuses the next one, so that neither is changed alone.
func TestTheSchemasBoundsAreTheCatalogues(t *testing.T) {
	t.Parallel()
	text := testkit.ReadFile(t, "../../../config/crd/bases/examprep.dev_examcontents.yaml")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	check.NoError(t, yaml.Unmarshal(text, crd))
	base := map[string]any{}
	check.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, boundedExam, "sha256:"+strings.Repeat("0", 64)), &base))
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var bounds []bound
	collectBounds(&bounds, "spec", &spec, base["spec"])
	if len(bounds) < 40 {
		t.Fatalf("found %d bounds", len(bounds))
	}
	used := map[string]bool{}
	for _, bound := range bounds {
		if err := assembleWith(t, base, bound.path, bound.at); err != nil {
			t.Errorf("%s: the API server takes %.40v and the catalogue does not: %.300v", bound.path, bound.at, err)
		}
		reason, lax := laxer()[bound.path]
		err := assembleWith(t, base, bound.path, bound.over)
		if err == nil && !lax {
			t.Errorf("%s: the API server refuses %.40v and the catalogue does not (%d characters)", bound.path, bound.over, len(fmt.Sprint(bound.over)))
		}
		used[bound.path] = used[bound.path] || err == nil && reason != ""
	}
	for path := range laxer() {
		if !used[path] {
			t.Errorf("%s is listed as laxer and is not", path)
		}
	}
}

// collectBounds walks a schema along a value that has all its fields.
func collectBounds(bounds *[]bound, path string, schema *apiextensionsv1.JSONSchemaProps, value any) {
	if schema.XPreserveUnknownFields != nil {
		return
	}
	shaped := schema.Pattern != "" || len(schema.XValidations) > 0 || len(schema.Enum) > 0
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if property, ok := schema.Properties[name]; ok {
				collectBounds(bounds, path+"."+name, &property, value[name])
			}
		}
	case []any:
		for _, item := range value {
			collectBounds(bounds, path+"[]", schema.Items.Schema, item)
		}
	case string:
		if schema.MaxLength != nil && !shaped {
			n := int(*schema.MaxLength)
			*bounds = append(*bounds, bound{path, strings.Repeat("x", n), strings.Repeat("x", n+1)})
		}
		if schema.MinLength != nil && *schema.MinLength == 1 && !shaped {
			*bounds = append(*bounds, bound{path, "x", ""})
		}
		if schema.MaxLength != nil && strings.HasPrefix(value, "https://") {
			n := int(*schema.MaxLength) - len("https://example.org/")
			*bounds = append(*bounds, bound{path, "https://example.org/" + strings.Repeat("x", n), "https://example.org/" + strings.Repeat("x", n+1)})
		}
	case float64:
		if schema.Maximum != nil {
			*bounds = append(*bounds, bound{path, *schema.Maximum, *schema.Maximum + 1})
		}
		if schema.Minimum != nil && !schema.ExclusiveMinimum {
			*bounds = append(*bounds, bound{path, *schema.Minimum, *schema.Minimum - 1})
		}
	}
}

// assembleWith returns the error of assembling the exam with another value at a path (in the first entry of lists).
func assembleWith(t *testing.T, base map[string]any, path string, value any) error {
	t.Helper()
	changed := map[string]any{}
	testkit.Decode(t, testkit.Encode(t, base), &changed)
	put(changed, strings.Split(strings.ReplaceAll(path, "[]", ".[]"), "."), value)
	content := &v1alpha1.ExamContent{}
	testkit.Decode(t, testkit.Encode(t, changed), content)
	_, err := Assemble(t.Context(), content, nil)
	return err
}

// put sets a value below at, of maps and lists.
func put(at any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	switch at := at.(type) {
	case map[string]any:
		at[path[0]] = put(at[path[0]], path[1:], value)
		return at
	case []any:
		for i := range at { // the entry that has the field
			if entry, ok := at[i].(map[string]any); !ok || has(entry, path[1:]) {
				at[i] = put(at[i], path[1:], value)
				break
			}
		}
		return at
	}
	return value
}

func has(entry map[string]any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	below, ok := entry[path[0]]
	if inner, isMap := below.(map[string]any); isMap {
		return has(inner, path[1:])
	}
	return ok
}
