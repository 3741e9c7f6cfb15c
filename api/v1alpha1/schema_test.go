package v1alpha1_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestEmbeddedCRDsAreThoseOfConfig(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("CRDs: %v, %v", files, err)
	}
	for _, file := range files {
		text := testkit.ReadFile(t, file)
		want := &apiextensionsv1.CustomResourceDefinition{}
		check.NoError(t, yaml.UnmarshalStrict(text, want))
		if got, err := v1alpha1.CRD(want.Spec.Names.Plural); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s differs from the embedded copy: make generate copies it (%v)", file, err)
		}
	}
	if _, err := v1alpha1.CRD("exams"); err == nil {
		t.Error("there is a CRD of a kind that is not ours")
	}
}

func TestEveryFieldIsExplained(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("CRDs: %v, %v", files, err)
	}
	for _, file := range files {
		text := testkit.ReadFile(t, file)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		check.NoError(t, yaml.UnmarshalStrict(text, crd))
		kind := crd.Spec.Names.Kind
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		if schema.Description == "" || len(crd.Spec.Names.ShortNames) == 0 || len(crd.Spec.Names.Categories) == 0 {
			t.Errorf("%s lacks a description, a short name or a category", kind)
		}
		for _, name := range []string{"spec", "status"} {
			property := schema.Properties[name]
			explained(t, kind+"."+name, &property)
		}
	}
}

func explained(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if schema.Description == "" {
		t.Errorf("%s has no description", path)
	}
	if schema.Items != nil {
		for name := range schema.Items.Schema.Properties {
			property := schema.Items.Schema.Properties[name]
			explained(t, path+"[]."+name, &property)
		}
	}
	for name := range schema.Properties {
		property := schema.Properties[name]
		explained(t, path+"."+name, &property)
	}
}

// TestLargeExamsFitTheValidationBudget makes sure that the rules can be afforded where the lists are as long as the
// schema and etcd allow: the API server refuses a resource whose rules cost too much to run.
func TestLargeExamsFitTheValidationBudget(t *testing.T) {
	t.Parallel()
	kube, namespace := clustertest.Client(t), clustertest.Namespace(t)
	question := func(number int32) v1alpha1.Question {
		return v1alpha1.Question{
			Number: number, Prompt: "Which?",
			Options: map[string]string{"A": "1", "B": "2", "C": "3", "D": "4", "E": "5"},
			Answer:  v1alpha1.Answer{Choices: []string{"A", "B", "C", "D", "E"}},
		}
	}
	exam := func(name string, papers int, fill func(*v1alpha1.Paper)) *v1alpha1.ExamContent {
		content := &v1alpha1.ExamContent{}
		content.Name, content.Namespace = name, namespace
		content.Spec = v1alpha1.ExamContentSpec{ExamKey: name, Name: name}
		for i := range papers {
			paper := v1alpha1.Paper{
				PaperID: fmt.Sprintf("%s-paper-%d", name, i), Title: "Paper", Year: 2023,
				Provenance: v1alpha1.Provenance{Publisher: "Board", SourceURL: "https://example.org/", License: "CC0-1.0"},
			}
			fill(&paper)
			content.Spec.Papers = append(content.Spec.Papers, paper)
		}
		return content
	}
	for _, content := range []*v1alpha1.ExamContent{
		exam("many-questions", 28, func(p *v1alpha1.Paper) {
			for number := range int32(v1alpha1.MaxInlineQuestions) {
				p.Questions = append(p.Questions, question(number+1))
			}
		}),
		exam("many-papers", 500, func(p *v1alpha1.Paper) {
			p.QuestionsFrom = []v1alpha1.QuestionSource{{
				ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: "questions", Key: p.PaperID},
				Digest:          "sha256:" + strings.Repeat("0123456789abcdef", 4),
			}}
		}),
	} {
		if err := kube.Create(t.Context(), content, client.DryRunAll); err != nil {
			t.Errorf("%s is refused: %.500s", content.Name, err)
		}
	}
}

func TestExamKeyCannotBeChanged(t *testing.T) {
	t.Parallel()
	kube, namespace := clustertest.Client(t), clustertest.Namespace(t)
	object := &unstructured.Unstructured{}
	check.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, validExam, strings.Repeat("0123456789abcdef", 4)), object))
	object.SetNamespace(namespace)
	check.NoError(t, kube.Create(t.Context(), object))
	set(t, object.Object, "spec.examKey", "xx-other")
	err := kube.Update(t.Context(), object)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "create another ExamContent for another exam") {
		t.Errorf("change of the exam key: %v", err)
	}
}

// TestServerSideApplyKeepsTheDeclaredOrder guards the list types: order is what learners see, and an item that git no
// longer has must go.
func TestServerSideApplyKeepsTheDeclaredOrder(t *testing.T) {
	t.Parallel()
	kube, namespace := clustertest.Client(t), clustertest.Namespace(t)
	apply := func(questions string) []string {
		object := &unstructured.Unstructured{}
		check.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, validExam, strings.Repeat("0123456789abcdef", 4)), object))
		object.SetNamespace(namespace)
		set(t, object.Object, "spec.papers.0.questions", questions)
		check.NoError(t, kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("git"), client.ForceOwnership))
		stored := &v1alpha1.ExamContent{}
		check.NoError(t, kube.Get(t.Context(), client.ObjectKeyFromObject(object), stored))
		var prompts []string
		for _, question := range stored.Spec.Papers[0].Questions {
			prompts = append(prompts, question.Prompt)
		}
		return prompts
	}
	item := func(section, number int, prompt string) string {
		return fmt.Sprintf("- {section: %d, number: %d, prompt: %s, answer: {text: x}}\n", section, number, prompt)
	}
	one, two, three := item(1, 1, "one"), item(1, 2, "two"), item(2, 1, "three")
	check.Equal(t, strings.Join(apply(one+two+three), " "), "one two three", "first order")
	check.Equal(t, strings.Join(apply(three+one+two), " "), "three one two", "reordered")
	check.Equal(t, strings.Join(apply(two+item(3, 1, "four")+three), " "), "two four three", "one removed, one added")
}
