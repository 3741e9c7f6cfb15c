package chart_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// generating is a kustomization that generates the ConfigMap of an exam and the Secret of an endpoint.
var generating = map[string]string{ //nolint:gochecknoglobals // a constant table
	"kustomization.yaml": `
resources: [exam.yaml, endpoint.yaml]
configMapGenerator:
- name: geography-questions
  literals: ["first.jsonl={}"]
secretGenerator:
- name: results-signing
  literals: [secret=0123456789abcdef0123456789abcdef]
`,
	"exam.yaml": `
apiVersion: examprep.dev/v1alpha1
kind: ExamContent
metadata: {name: geography}
spec:
  papers:
  - paperID: inline
    questions: [{number: 1}]
  - paperID: chunks
    questionsFrom:
    - configMapKeyRef: {name: geography-questions, key: first.jsonl}
    - configMapKeyRef: {name: written-by-hand, key: second.jsonl}
`,
	"endpoint.yaml": `
apiVersion: examprep.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: results}
spec:
  signingSecretRef: {name: results-signing, key: secret}
`,
}

// kustomize returns the resources that kustomize makes of generating, by kind.
func kustomize(t *testing.T, addition string) map[string]map[string]any {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "exams")
	noError(t, os.CopyFS(filepath.Join(folder, "..", "kustomize"), os.DirFS("../../config/kustomize")))
	noError(t, os.MkdirAll(folder, 0o700))
	for name, text := range generating {
		if name == "kustomization.yaml" {
			text += addition
		}
		noError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	noError(t, err)
	byKind := map[string]map[string]any{}
	for _, resource := range made.Resources() {
		text, err := resource.AsYAML()
		noError(t, err)
		var object map[string]any
		noError(t, yaml.Unmarshal(text, &object))
		byKind[resource.GetKind()] = object
	}
	return byKind
}

// at returns the text below object at a path of keys and indices.
func at(t *testing.T, object any, path ...any) string {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object = object.(map[string]any)[step] //nolint:errcheck // a panic shows the path
		case int:
			object = object.([]any)[step] //nolint:errcheck // a panic shows the path
		}
	}
	return object.(string) //nolint:errcheck // a panic shows the path
}

// TestGeneratedNamesReachExamsAndEndpoints: without config/kustomize they do not.
func TestGeneratedNamesReachExamsAndEndpoints(t *testing.T) {
	t.Parallel()
	for addition, reach := range map[string]bool{
		"":                             false,
		"components: [../kustomize]\n": true,
	} {
		made := kustomize(t, addition)
		for _, reference := range []struct{ field, generated, base string }{
			{
				at(t, made["ExamContent"], "spec", "papers", 1, "questionsFrom", 0, "configMapKeyRef", "name"),
				at(t, made["ConfigMap"], "metadata", "name"),
				"geography-questions",
			},
			{
				at(t, made["WebhookEndpoint"], "spec", "signingSecretRef", "name"),
				at(t, made["Secret"], "metadata", "name"),
				"results-signing",
			},
		} {
			if reference.generated == reference.base || (reference.field == reference.generated) != reach {
				t.Errorf("with %q the field has %s and the generated resource %s", addition, reference.field, reference.generated)
			}
		}
		if name := at(t, made["ExamContent"], "spec", "papers", 1, "questionsFrom", 1, "configMapKeyRef", "name"); name != "written-by-hand" {
			t.Errorf("with %q the name of a ConfigMap that is not generated became %s", addition, name)
		}
	}
}
