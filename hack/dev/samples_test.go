package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
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
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 {
		t.Fatalf("read %d objects: %v", len(objects), objects)
	}
	pointAt(objects, "https://127.0.0.1:1/")
	if got := objects[0].part("spec").text("url"); got != "https://127.0.0.1:1/" {
		t.Errorf("the placeholder became %s", got)
	}
	if got := objects[1].part("spec").text("url"); got != "https://hooks.acme.io/x" {
		t.Errorf("somebody's address became %s", got)
	}
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
		if got := reserved(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

func TestAFailedBuildsWordsAreToldWithoutItsProgress(t *testing.T) {
	var l lineCounter
	for _, text := range []string{"examprep.dev/server\nk8s.io/api\n", "# examprep.dev/broken\nbroken.go:1:2: undefined: x\n"} {
		if _, err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := l.complaints(), "# examprep.dev/broken\nbroken.go:1:2: undefined: x\n"; got != want {
		t.Errorf("got %q", got)
	}
	if l.count() != 4 {
		t.Errorf("counted %d lines", l.count())
	}
}

func TestAppliesByKustomizationWhereThereIsOne(t *testing.T) {
	root := t.TempDir()
	if got := strings.Join(applyArgs(root, "crd"), " "); !strings.HasSuffix(got, "-R -f "+filepath.Join(root, "crd")) {
		t.Error(got)
	}
	if err := os.MkdirAll(filepath.Join(root, "crd"), 0o755); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, filepath.Join(root, "crd", "kustomization.yaml"), nil)
	if got := strings.Join(applyArgs(root, "crd"), " "); !strings.HasSuffix(got, "-k "+filepath.Join(root, "crd")) {
		t.Error(got)
	}
}
