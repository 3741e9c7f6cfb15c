package content

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/server/catalog"
	"examprep.dev/server/content/syntax"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// bound is a limit of the schema of ExamContent: a value at the limit of the field at a path, and a value just beyond it.
type bound struct {
	path       []any
	at, beyond any
	// required reports whether the field must be given.
	required bool
}

// field is the path as a problem names it.
func (b bound) field() string {
	var p syntax.Path
	for _, step := range b.path {
		switch step := step.(type) {
		case string:
			p = p.Field(step)
		case int:
			p = p.At(step)
		}
	}
	return p.String()
}

// formless are fields whose longest values have a form that bounds does not make.
func formless() []string {
	return []string{"spec.resyncInterval", "spec.papers[0].language", "spec.papers[0].verification.at"}
}

// elsewhere are fields that baseExam lacks, because it could not have them without an error.
func elsewhere() []string {
	return []string{"spec.papers.questionsFrom", "spec.papers.verification.signature", "spec.revision"}
}

// bounds returns the limits of a value and of all values below it.
func (g *generator) bounds(schema *apiextensionsv1.JSONSchemaProps, value any, required bool, path ...any) (found []bound) {
	add := func(at, beyond any) {
		found = append(found, bound{path: path, at: at, beyond: beyond, required: required})
	}
	switch value := value.(type) {
	case string:
		if schema.MaxLength != nil {
			longest := value + strings.Repeat("x", int(*schema.MaxLength)-len(value))
			add(longest, longest+"x")
		}
		if schema.MinLength != nil {
			add(value[:*schema.MinLength], value[:*schema.MinLength-1])
		}
	case float64:
		if schema.Maximum != nil {
			add(*schema.Maximum, *schema.Maximum+1)
		}
		if low := schema.Minimum; low != nil && schema.ExclusiveMinimum {
			add(*low+0.5, *low)
		} else if low != nil {
			add(*low, *low-1)
		}
	case []any:
		size := func(n int64) []any { return g.entries(schema.Items.Schema, value[0], int(n)) }
		if schema.MaxItems != nil {
			add(size(*schema.MaxItems), size(*schema.MaxItems+1))
		}
		if schema.MinItems != nil {
			add(size(*schema.MinItems), append([]any{}, size(*schema.MinItems-1)...))
		}
		for i, item := range value {
			found = append(found, g.bounds(schema.Items.Schema, item, true, append(slices.Clone(path), i)...)...)
		}
	case map[string]any:
		if schema.MaxProperties != nil {
			add(letters(*schema.MaxProperties), letters(*schema.MaxProperties+1))
		}
		if schema.MinProperties != nil {
			add(letters(*schema.MinProperties), letters(*schema.MinProperties-1))
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if property, known := schema.Properties[key]; known {
				found = append(found, g.bounds(&property, value[key], slices.Contains(schema.Required, key), append(slices.Clone(path), key)...)...)
			}
		}
	}
	return found
}

// examBounds returns the limits of ExamContent, and the generator of its documents.
func examBounds(t *testing.T) (*generator, []bound) {
	t.Helper()
	g := newGenerator(t, "examcontents", fmt.Sprintf(baseExam, zeros()))
	found := g.bounds(&g.spec, g.base["spec"], true, "spec")
	given := make(map[string]bool)
	collectShown(g.base, "", given)
	for _, field := range schemaFields(&g.spec, "spec") {
		if !given[field] && !slices.ContainsFunc(elsewhere(), func(other string) bool { return strings.HasPrefix(field, other) }) {
			t.Errorf("baseExam lacks %s, so its limits are not tested", field)
		}
	}
	return g, found
}

// otherLimits are values that the schema alone refuses, and that bounds does not make.
func otherLimits() []bound {
	return []bound{
		{path: []any{"spec", "scoring"}, beyond: []any{}},
		{path: []any{"spec", "studyPath", "steps", 0}, beyond: []any{}},
		{path: []any{"spec", "papers", 0, "language"}, beyond: "en_GB"},
		{path: []any{"spec", "papers", 0, "marking"}, beyond: map[string]any{"correct": 1, "unanswered": 2}},
		{path: []any{"spec", "papers", 0, "verification", "signature"}, beyond: strings.Repeat("x", 4097)},
	}
}

func loadText(t *testing.T, text string) *Files {
	t.Helper()
	files, err := Load(t.Context(), strings.NewReader(text), Stdin)
	check.NoError(t, err)
	return files
}

// names reports whether err has a problem of a field, or of a part of it.
func names(err error, field string) bool {
	refused, ok := errors.AsType[*ProblemsError](err)
	return ok && slices.ContainsFunc(refused.Problems, func(p Problem) bool { return p.Field == field || strings.HasPrefix(p.Field, field+".") })
}

// The catalogue has no limits of the fields of exams and papers. So the schema alone must refuse a value beyond a limit, in each command.
func TestSchemaRefusesEachValueBeyondItsLimit(t *testing.T) {
	t.Parallel()
	g, found := examBounds(t)
	for _, bound := range append(found, otherLimits()...) {
		field := bound.field()
		files := loadText(t, g.with(bound.beyond, bound.path...))
		if !names(files.Err(), field) {
			t.Errorf("%s: the schema accepts %.60v: %v", field, bound.beyond, files.Err())
			continue
		}
		_, published := Publish(t.Context(), files, nil, "here")
		_, compared := Diff(t.Context(), files, nil)
		_, linted := Lint(t.Context(), files, LintOptions{})
		for command, err := range map[string]error{"publish": published, "diff": compared, "lint": linted} {
			if !names(err, field) {
				t.Errorf("%s: %s does not refuse %.60v: %v", field, command, bound.beyond, err)
			}
		}
		if bound.at == nil || slices.Contains(formless(), field) {
			continue
		}
		if _, err := assembleAll(t.Context(), loadText(t, g.with(bound.at, bound.path...))); err != nil {
			t.Errorf("%s: refused at the limit, %.60v: %v", field, bound.at, err)
		}
	}
}

// The operator does not publish a suspended exam, and publishes an earlier revision for a pinned one. Their files are checked like others.
func TestSchemaChecksSuspendedAndPinnedExams(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"suspend: true", "revision: 3"} {
		text := strings.NewReplacer("countryCode: ES", option, "name: MIR\n", "name: "+strings.Repeat("x", 301)+"\n").Replace(goodExam)
		if _, err := Publish(t.Context(), loadText(t, text), nil, "here"); !names(err, "spec.name") {
			t.Errorf("%s: have %v", option, err)
		}
	}
}

// chunked returns a document whose first paper has its questions in a ConfigMap.
func chunked(t *testing.T, text string) string {
	t.Helper()
	var object map[string]any
	testkit.Decode(t, []byte(text), &object)
	spec, _ := object["spec"].(map[string]any)
	papers, _ := spec["papers"].([]any)
	paper, _ := papers[0].(map[string]any)
	questions := testkit.Encode(t, paper["questions"])
	delete(paper, "questions")
	paper["questionsFrom"] = []any{map[string]any{"configMapKeyRef": map[string]any{"name": "chunk", "key": "q"}}}
	config := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "chunk", "labels": map[string]any{"examprep.dev/content": "true"}},
		"data":     map[string]any{"q": string(questions)},
	}
	return string(testkit.Encode(t, object)) + "\n---\n" + string(testkit.Encode(t, config))
}

// The API server does not see the questions in chunks. So the catalogue has the limits that the schema has for inline questions.
func TestCatalogueHasTheSchemasLimitsOfQuestions(t *testing.T) {
	t.Parallel()
	g, found := examBounds(t)
	found = slices.DeleteFunc(found, func(b bound) bool { return !strings.HasPrefix(b.field(), "spec.papers[0].questions[") })
	if len(found) < 40 {
		t.Fatalf("found %d limits of questions", len(found))
	}
	load := func(value any, path []any) *Files { return loadText(t, chunked(t, g.with(value, path...))) }
	for _, bound := range found {
		field := bound.field()
		if _, err := assembleAll(t.Context(), load(bound.at, bound.path)); err != nil {
			t.Errorf("%s: refused at the limit, %.60v: %v", field, bound.at, err)
		}
		beyond := load(bound.beyond, bound.path)
		exams, err := assembleAll(t.Context(), beyond)
		if bound.beyond == 0.0 && !bound.required { // a chunk cannot tell 0 from a number that is not given
			absent, absentErr := assembleAll(t.Context(), load(removed{}, bound.path))
			if err != nil || absentErr != nil || !reflect.DeepEqual(exams, absent) {
				t.Errorf("%s: 0 differs from no number: %v, %v", field, err, absentErr)
			}
			continue
		}
		if _, ok := errors.AsType[*catalog.ValidationError](err); !ok {
			t.Errorf("%s: the catalogue accepts %.60v: %v", field, bound.beyond, err)
		}
		_, err = Lint(t.Context(), beyond, LintOptions{})
		if want := fmt.Sprintf("data.q[%v].%v", bound.path[4], bound.path[5]); !names(err, want) {
			t.Errorf("%s: lint names another field than %s: %v", field, want, err)
		}
	}
}
