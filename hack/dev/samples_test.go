package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestSamplesDeliverToTheReceiverUnlessTheyNameSomebodys(t *testing.T) {
	dir := t.TempDir()
	text := `# a comment
apiVersion: examprep.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: placeholder}
spec: {url: "https://receiver.example.com/hook"}
---
apiVersion: examprep.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: theirs, namespace: team}
spec: {url: "https://hooks.acme.io/x"}
---
# nothing but a comment
---
kind: Kustomization
resources: [a.yaml]
`
	testkit.WriteFile(t, filepath.Join(dir, "samples.yaml"), []byte(text))
	objects, err := readSamples(dir)
	check.NoError(t, err)
	if len(objects) != 2 {
		t.Fatalf("read %d objects: %v", len(objects), objects)
	}
	pointAt(objects, "https://127.0.0.1:1/")
	check.Equal(t, objects[0].part("spec").text("url"), "https://127.0.0.1:1/hook", "the placeholder")
	check.Equal(t, objects[1].part("spec").text("url"), "https://hooks.acme.io/x", "somebody's address")
	if objects[0].namespace() != "default" || objects[1].namespace() != "team" || !objects[0].ours() {
		t.Errorf("namespaces %q and %q", objects[0].namespace(), objects[1].namespace())
	}
	if text, err := list(objects); err != nil || !strings.HasPrefix(text, `{"apiVersion":"v1","items":[{"apiVersion":"examprep.dev/v1alpha1"`) {
		t.Errorf("%v: %s", err, text)
	}
}

func TestBrokenSamplesAreNamed(t *testing.T) {
	dir := t.TempDir()
	if _, err := readSamples(dir); err == nil {
		t.Error("an empty folder has samples")
	}
	testkit.WriteFile(t, filepath.Join(dir, "broken.yaml"), []byte("kind: [\n"))
	if _, err := readSamples(dir); err == nil || !strings.Contains(err.Error(), "broken.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestReservedNames(t *testing.T) {
	for host, want := range map[string]bool{
		"receiver.invalid": true, "receiver.example.com": true, "example.org": true, "a.test": true,
		"notexample.com": false, "example.com.acme.io": false, "acme.io": false, "": false,
	} {
		check.Equal(t, reserved(host), want, "%q", host)
	}
}

func TestComplaintsOfAFailedBuildExcludeProgress(t *testing.T) {
	var l lineCounter
	for _, text := range []string{"examprep.dev/server\nk8s.io/api\n", "# examprep.dev/broken\nbroken.go:1:2: undefined: x\n"} {
		_, err := l.Write([]byte(text))
		check.NoError(t, err)
	}
	check.Equal(t, l.complaints(), "# examprep.dev/broken\nbroken.go:1:2: undefined: x\n", "complaints")
	check.Equal(t, l.count(), 4, "lines counted")
}

func TestAppliesByKustomizationWhereThereIsOne(t *testing.T) {
	root := t.TempDir()
	if got := strings.Join(applyArgs(root, "crd"), " "); !strings.HasSuffix(got, "-R -f "+filepath.Join(root, "crd")) {
		t.Error(got)
	}
	check.NoError(t, os.MkdirAll(filepath.Join(root, "crd"), 0o755))
	testkit.WriteFile(t, filepath.Join(root, "crd", "kustomization.yaml"), nil)
	if got := strings.Join(applyArgs(root, "crd"), " "); !strings.HasSuffix(got, "-k "+filepath.Join(root, "crd")) {
		t.Error(got)
	}
}
