package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/testkit/check"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

const validExam = `
apiVersion: examprep.dev/v1alpha1
kind: ExamContent
metadata: {name: sample}
spec:
  examKey: xx-sample
  name: Sample exam
  countryCode: ES
  durationMinutes: 90
  sections: [{name: All, questions: 2}]
  scoring: {pass_mark: 1, anything: {goes: [here]}}
  resources: {officialSites: [{title: Board, url: "https://example.org/"}]}
  studyPath: {weeks: 2, hoursTotal: 7.5, steps: [{week: 1, free: {form: true}}]}
  papers:
  - paperID: xx-sample-2023
    title: Sample 2023
    year: 2023
    language: pt-BR
    marking: {correct: 3, incorrect: -1}
    provenance: {publisher: Board, sourceURL: "https://example.org/2023.pdf", license: CC0-1.0}
    verification: {by: R. Viewer, at: "2026-01-31", digest: "sha256:%[1]s"}
    questions:
    - {number: 1, prompt: "One?", options: {A: one, B: two}, answer: {choice: B}}
    - {number: 2, prompt: "Two?", options: {A: one, B: two, C: three}, answer: {choices: [A, C]}}
    - {section: 2, number: 1, prompt: "Pi?", answer: {number: 3.14, tolerance: 0.01}}
    - {section: 2, number: 2, prompt: "Zero?", answer: {number: 0}}
    - {section: 2, number: 3, prompt: "Word?", answer: {text: photosynthesis}}
    - {section: 2, number: 4, prompt: "Void?", answer: {annulled: true}}
    - {section: 2, number: 5, prompt: "Essay?", answer: {unmarkable: true}}
  - paperID: xx-sample-2024
    title: Sample 2024
    year: 2024
    provenance: {publisher: Board, sourceURL: "http://example.org/2024.pdf", license: CC0-1.0}
    questionsFrom:
    - configMapKeyRef: {name: questions, key: part-0.json}
      digest: "sha256:%[1]s"
`

const validEndpoint = `
apiVersion: examprep.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: sample}
spec:
  url: https://example.org/hook?a=b
  events: [mock_attempt.scored, exam.content_updated]
`

const validTier = `
apiVersion: examprep.dev/v1alpha1
kind: RateTier
metadata: {name: sample}
spec: {requests: 600, period: 1m30s, burst: 50, accounts: [acme], keyPrefixes: [service_0123abcd]}
`

// refusal is one change that makes a valid resource invalid: the value at path becomes what YAML says, or is removed if
// it says nothing.
type refusal struct {
	name string
	// path is dotted; numbers are places in lists.
	path string
	yaml string
	// want must be part of the API server's answer: the field and what to do about it.
	want []string
}

func TestExamContentIsRefusedByTheAPIServer(t *testing.T) {
	t.Parallel()
	const question, paper = "spec.papers.0.questions.0.", "spec.papers.0."
	testRefusals(t, fmt.Sprintf(validExam, strings.Repeat("0123456789abcdef", 4)), []refusal{
		{"exam key with two hyphens", "spec.examKey", "xx--sample", []string{"spec.examKey", "single inner hyphens"}},
		{"exam key in capitals", "spec.examKey", "XX", []string{"spec.examKey", "lower-case letters, digits and single inner hyphens"}},
		{"no exam key", "spec.examKey", "", []string{"spec.examKey: Required"}},
		{"no name", "spec.name", "", []string{"spec.name: Required"}},
		{"country by name", "spec.countryCode", "es", []string{"spec.countryCode", "two capital letters"}},
		{"resync too often", "spec.resyncInterval", "10s", []string{"spec.resyncInterval", "at least 30s"}},
		{"resync no duration", "spec.resyncInterval", "often", []string{"spec.resyncInterval", "duration of at least 30s"}},
		{"unknown deletion policy", "spec.deletionPolicy", "Keep", []string{"spec.deletionPolicy", `"Retain", "Delete"`}},
		{"pin of nothing", "spec.revision", "0", []string{"spec.revision", "greater than or equal to 1"}},
		{"scoring no object", "spec.scoring", "free", []string{"spec.scoring", "must be of type object"}},
		{"step no object", "spec.studyPath.steps.0", "free", []string{"spec.studyPath.steps[0]", "must be of type object"}},
		{"link without scheme", "spec.resources.officialSites.0.url", "example.org", []string{"officialSites[0].url", "must begin with https://"}},

		{"no provenance", paper + "provenance", "", []string{"spec.papers[0].provenance: Required"}},
		{"provenance without source", paper + "provenance.sourceURL", "", []string{"provenance.sourceURL: Required"}},
		{"provenance from nowhere", paper + "provenance.sourceURL", "a book", []string{"provenance.sourceURL", "say where the paper can be found"}},
		{"provenance without license", paper + "provenance.license", "''", []string{"provenance.license", "at least 1"}},
		{"no year", paper + "year", "", []string{"spec.papers[0].year: Required"}},
		{"short paper ID", paper + "paperID", "p1", []string{"spec.papers[0].paperID", "at least 6"}},
		{"paper ID with a slash", paper + "paperID", "xx/sample", []string{"spec.papers[0].paperID", "should match"}},
		{"paper ID twice", "spec.papers.1.paperID", "xx-sample-2023", []string{"spec.papers[1]: Duplicate value"}},
		{"neither questions nor chunks", paper + "questions", "", []string{"spec.papers[0]", "either questions (inline) or questionsFrom"}},
		{"questions and chunks", paper + "questionsFrom", "[{configMapKeyRef: {name: a, key: b}}]", []string{"spec.papers[0]", "and not both"}},
		{"no questions", paper + "questions", "[]", []string{"spec.papers[0].questions", "at least 1"}},
		{"reward for wrong answers", paper + "marking.incorrect", "1", []string{"marking.incorrect", "less than or equal to 0"}},
		{"nothing for right answers", paper + "marking.correct", "0", []string{"marking.correct", "greater than 0"}},
		{"seal without a date", paper + "verification.at", "lately", []string{"verification.at", "should match"}},
		{"seal of another kind", paper + "verification.digest", "md5:00", []string{"verification.digest", "should match"}},
		{"chunk without a key", "spec.papers.1.questionsFrom.0.configMapKeyRef.key", "", []string{"configMapKeyRef.key: Required"}},

		{"answer not among the options", question + "answer", "{choice: C}", []string{"questions[0].answer.choice", "one of the letters under options"}},
		{"answer without options", question + "options", "", []string{"questions[0].answer.choice", "one of the letters under options"}},
		{"one of several answers not among the options", "spec.papers.0.questions.1.answer.choices", "[A, D]", []string{"questions[1].answer.choices", "every letter"}},
		{"answer in lower case", question + "answer", "{choice: b}", []string{"answer.choice", "should match"}},
		{"no answer", question + "answer", "", []string{"questions[0].answer: Required"}},
		{"empty answer", question + "answer", "{}", []string{"questions[0].answer", "exactly one of choice, choices, number"}},
		{"two kinds of answer", question + "answer", "{choice: B, text: two}", []string{"questions[0].answer", "exactly one of"}},
		{"not annulled", question + "answer", "{annulled: false}", []string{"answer.annulled", "Unsupported value"}},
		{"tolerance without a number", question + "answer", "{choice: B, tolerance: 1}", []string{"questions[0].answer", "tolerance belongs to number"}},
		{"tolerance below zero", "spec.papers.0.questions.2.answer.tolerance", "-1", []string{"answer.tolerance", "greater than or equal to 0"}},
		{"option by small letter", question + "options", "{A: one, B: two, c: three}", []string{"questions[0].options", "must be capital letters"}},
		{"option by what follows Z", question + "options", "{A: one, B: two, '[': three}", []string{"questions[0].options", "must be capital letters"}},
		{"option by word", question + "options", "{A: one, B: two, other: three}", []string{"questions[0].options", "single capital letters"}},
		{"more for nothing than for right answers", paper + "marking.unanswered", "4", []string{"marking.unanswered", "must not earn more than a right answer"}},
		{"empty skill", "spec.sections.0.skills", "['']", []string{"spec.sections[0].skills[0]", "at least 1"}},
		{"long section", "spec.sections.0.durationMinutes", "10081", []string{"sections[0].durationMinutes", "less than or equal to 10080"}},
		{"chunk in no ConfigMap", "spec.papers.1.questionsFrom.0.configMapKeyRef.name", "No Name", []string{"configMapKeyRef.name", "should match"}},
		{"chunk of no key", "spec.papers.1.questionsFrom.0.configMapKeyRef.key", "a/b", []string{"configMapKeyRef.key", "should match"}},
		{"a single option", question + "options", "{B: two}", []string{"questions[0].options", "at least 2"}},
		{"no number", question + "number", "", []string{"questions[0].number: Required"}},
		{"no prompt", question + "prompt", "''", []string{"questions[0].prompt", "at least 1"}},
	})
}

func TestWebhookEndpointIsRefusedByTheAPIServer(t *testing.T) {
	t.Parallel()
	testRefusals(t, validEndpoint, []refusal{
		{"plain http", "spec.url", "http://example.org/", []string{"spec.url", "https:// address"}},
		{"no URL", "spec.url", "nowhere", []string{"spec.url", "https:// address"}},
		{"no host", "spec.url", "https:///path", []string{"spec.url", "with a host name"}},
		{"credentials", "spec.url", "https://me:secret@example.org/", []string{"spec.url", "must not hold credentials"}},
		{"account of two lines", "spec.account", `"ac\nme"`, []string{"spec.account", "control characters"}},
		{"account with a blank at its end", "spec.account", "'acme '", []string{"spec.account", "must not begin or end with a blank"}},
		{"account with an invisible character at its end", "spec.account", "\"acme\\u200b\"", []string{"spec.account", "an invisible character"}},
		{"secret of no name", "spec.signingSecretRef", "{name: My_Secret}", []string{"signingSecretRef.name", "should match"}},
		{"secret of no key", "spec.signingSecretRef", "{name: mine, key: a/b}", []string{"signingSecretRef.key", "should match"}},
		{"fragment", "spec.url", "'https://example.org/#here'", []string{"spec.url", "must not hold credentials or a fragment"}},
		{"blank at the end", "spec.url", "'https://example.org/x '", []string{"spec.url", "must not have a blank at its ends"}},
		{"invisible character", "spec.url", "\"https://example.org/x\\u200b\"", []string{"spec.url", "an invisible character"}},
		{"empty label", "spec.url", "https://a..b.example/", []string{"spec.url", "must not have an empty label"}},
		{"dot at the beginning", "spec.url", "https://.example.com/", []string{"spec.url", "must not have an empty label"}},
		{"no events", "spec.events", "[]", []string{"spec.events", "at least 1"}},
		{"unknown event", "spec.events", "[mock_attempt.opened]", []string{"spec.events[0]", "Unsupported value"}},
		{"event twice", "spec.events", "[mock_attempt.scored, mock_attempt.scored]", []string{"spec.events[1]: Duplicate value"}},
	})
}

func TestRateTierIsRefusedByTheAPIServer(t *testing.T) {
	t.Parallel()
	testRefusals(t, validTier, []refusal{
		{"no requests", "spec.requests", "0", []string{"spec.requests", "greater than or equal to 1"}},
		{"no period", "spec.period", "0s", []string{"spec.period", "between 1s and 24h"}},
		{"long period", "spec.period", "25h", []string{"spec.period", "between 1s and 24h"}},
		{"period of a part of a second", "spec.period", "1500ms", []string{"spec.period", "whole seconds between 1s and 24h"}},
		{"period without unit", "spec.period", "'60'", []string{"spec.period", "for example 60s"}},
		{"whole key", "spec.keyPrefixes", "[service_0123456789abcdef]", []string{"spec.keyPrefixes[0]"}},
		{"account with a blank at its beginning", "spec.accounts", "[acme, ' globex']", []string{"spec.accounts[1]", "must not begin or end with a blank"}},
		{"account twice", "spec.accounts", "[acme, acme]", []string{"spec.accounts[1]: Duplicate value"}},
	})
}

func testRefusals(t *testing.T, valid string, refusals []refusal) {
	t.Helper()
	kube, namespace := clustertest.Client(t), clustertest.Namespace(t)
	attempt := func(t *testing.T, change func(*unstructured.Unstructured)) error {
		t.Helper()
		object := &unstructured.Unstructured{}
		check.NoError(t, yaml.Unmarshal([]byte(valid), object))
		object.SetNamespace(namespace)
		change(object)
		return kube.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
	}
	check.NoErrorf(t, attempt(t, func(*unstructured.Unstructured) {}), "the valid resource is refused")
	for _, refusal := range refusals {
		t.Run(refusal.name, func(t *testing.T) {
			t.Parallel()
			err := attempt(t, func(object *unstructured.Unstructured) { set(t, object.Object, refusal.path, refusal.yaml) })
			if !apierrors.IsInvalid(err) {
				t.Fatalf("not refused as invalid: %v", err)
			}
			for _, want := range refusal.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the refusal lacks %q: %v", want, err)
				}
			}
		})
	}
}

// set puts a value at a dotted path, or removes the value at the path.
func set(t *testing.T, root map[string]any, path, text string) {
	t.Helper()
	var value any
	check.NoError(t, yaml.Unmarshal([]byte(text), &value))
	names := strings.Split(path, ".")
	last := names[len(names)-1]
	var at any = root
	for _, name := range names[:len(names)-1] {
		at = child(t, at, name)
	}
	switch at := at.(type) {
	case map[string]any:
		if value == nil {
			delete(at, last)
		} else {
			at[last] = value
		}
	case []any:
		at[place(t, last)] = value
	}
}

func child(t *testing.T, parent any, name string) any {
	t.Helper()
	switch parent := parent.(type) {
	case map[string]any:
		return parent[name]
	case []any:
		return parent[place(t, name)]
	}
	t.Fatalf("nothing at %q", name)
	return nil
}

func place(t *testing.T, name string) int {
	t.Helper()
	var i int
	_, err := fmt.Sscan(name, &i)
	check.NoError(t, err)
	return i
}
