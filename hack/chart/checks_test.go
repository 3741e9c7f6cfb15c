package chart_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func TestLintFindsNothingToSayWithAnyExample(t *testing.T) {
	for helm, path := range helms {
		for name, values := range examples(t) {
			args := append([]string{"lint", "--strict", "--quiet", "--kube-version", kubernetes, folder}, values...)
			if _, err := command(t, nil, program(t, ".", path), args...); err != nil {
				t.Errorf("%s, %q: %v", helm, name, err)
			}
		}
	}
}

func TestBothHelmsRenderTheSame(t *testing.T) {
	for name, values := range examples(t) {
		rendered := make(map[string]map[string]string)
		for helm := range helms {
			text, err := template(t, helm, values...)
			if err != nil {
				t.Fatalf("%s, %q: %v", helm, name, err)
			}
			rendered[helm] = make(map[string]string)
			for _, o := range decode(t, text) {
				content, err := json.Marshal(o)
				noError(t, err)
				rendered[helm][o.id()] = string(content)
			}
		}
		for id, content := range rendered["helm 4"] {
			if rendered["helm 3"][id] != content {
				t.Errorf("%q: %s differs:\n%s\n%s", name, id, rendered["helm 3"][id], content)
			}
		}
		if len(rendered["helm 3"]) != len(rendered["helm 4"]) || len(rendered["helm 3"]) < least(name, 20) {
			t.Errorf("%q: %d and %d objects", name, len(rendered["helm 3"]), len(rendered["helm 4"]))
		}
	}
}

// least is how many of something a rendered example has at least, or the test has looked at nothing: many, but for a shard,
// which is an operator alone.
func least(example string, many int) int {
	if example == "shard.values.yaml" {
		return 1
	}
	return many
}

func TestUnitTestsPass(t *testing.T) {
	if _, err := command(t, nil, program(t, ".", "helm-unittest"), "--strict", folder); err != nil {
		t.Error(err)
	}
}

func TestEveryObjectFitsItsSchema(t *testing.T) {
	pattern, conform := schemas(t), program(t, ".", "kubeconform")
	for name, values := range examples(t) {
		text, err := template(t, "helm 4", values...)
		noError(t, err)
		if _, err := command(t, nil, conform, "-strict", "-schema-location", pattern, write(t, "manifests.yaml", text)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	wrong := write(t, "wrong.yaml", strings.Replace(namespacePolicy, "podSelector", "podSelektor", 1))
	if _, err := command(t, nil, conform, "-strict", "-schema-location", pattern, wrong); err == nil {
		t.Error("a misspelt field passes: the schemas see nothing")
	}
	right := write(t, "right.yaml", namespacePolicy)
	if _, err := command(t, nil, conform, "-strict", "-schema-location", pattern, right); err != nil {
		t.Error(err)
	}
}

const namespacePolicy = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: some}
spec: {podSelector: {}, policyTypes: [Egress]}
`

func TestScoreFindsNothingCritical(t *testing.T) {
	score := program(t, "score", "kube-score")
	for name, values := range examples(t) {
		text, err := template(t, "helm 4", values...)
		noError(t, err)
		args := []string{"score", "--output-format", "ci", "--kubernetes-version", "v1.32"}
		for test := range accepted {
			args = append(args, "--ignore-test", test)
		}
		if name == "small.values.yaml" || name == "sandbox.values.yaml" { // they have one pod on purpose
			args = append(args, "--min-replicas-deployment", "1")
			for _, test := range []string{"deployment-has-poddisruptionbudget", "deployment-replicas"} {
				args = append(args, "--ignore-test", test)
			}
		}
		if _, err := command(t, nil, score, append(args, write(t, "manifests.yaml", text))...); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// accepted are checks that do not hold here, and why.
var accepted = map[string]string{ //nolint:gochecknoglobals // a constant table
	"container-ephemeral-storage-request-and-limit": "the root is read-only and nothing is written anywhere",
	"container-resources":                           "a CPU limit throttles long before a node is busy; memory is limited",
	"container-image-pull-policy":                   "tags are never moved: IfNotPresent is right, and image.digest pins",
	"pod-probes":                                    "readiness and liveness differ in path, not in port; hooks and tests have none",
	"pod-networkpolicy":                             "it cannot see a policy that is a hook, as the migration's is; the others are checked in tests/",
	"deployment-has-host-podantiaffinity":           "topologySpreadConstraints spread pods over nodes and zones",
}

// archive packages the chart and returns the archive's path.
func archive(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	if _, err := command(t, nil, program(t, ".", helms["helm 4"]), "package", folder, "--destination", target); err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(target, "*.tgz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives %v: %v", archives, err)
	}
	return archives[0]
}

func TestTheArchiveHoldsWhatIsRendered(t *testing.T) {
	packed, err := command(t, nil, program(t, ".", helms["helm 4"]), "template", "r", archive(t), "--namespace", "ns", "--kube-version", kubernetes)
	noError(t, err)
	plain, err := template(t, "helm 4")
	noError(t, err)
	if packed != plain {
		t.Error("the package lacks a file that templates read: look at .helmignore")
	}
}
