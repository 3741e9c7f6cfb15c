package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit"
)

func TestPackagesFromNPMAreInstalledForTestsThatUseThem(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.org/project\n",
		"with/a.go":          "package with\n",
		"with/a_test.go":     "package with\n\nconst variable = \"" + testNPM + "\"\n",
		"without/a.go":       "package without\n",
		"without/a_test.go":  "package without\n",
		"without/unread.txt": testNPM,
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.WriteFile(t, path, []byte(text))
	}
	for command, want := range map[string]bool{
		"go test -race ./...":                 true,
		"go test ./with":                      true,
		"go test ./without":                   false,
		"go test ./without/... ./with":        true,
		"hack/dev/fuzz.sh 20s ./without":      false,
		"go test -run With ./absent":          true, // go test says what is wrong with it
		"bash":                                true,
		"go test -run Without ./without/... ": false,
	} {
		if got := needsOf(t.Context(), root, strings.Fields(command)).npm; got != want {
			t.Errorf("%s: %v, want %v", command, got, want)
		}
	}
}

func TestNeedsFollowTheTestedPackages(t *testing.T) {
	root, err := state.ProjectRoot()
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]needs{
		"go test ./controllers":                         {cluster: true},
		"go test -race examprep.dev/controllers":        {cluster: true, compiler: true},
		"go test ./server/keys":                         {},
		"go test ./hack/dev/controlplane ./server/gate": {binaries: true},
		"go -C hack/chart test .":                       {cluster: true},
		"go test ./absent":                              {cluster: true, npm: true},
	} {
		if got := needsOf(t.Context(), root, strings.Fields(command)); got != want {
			t.Errorf("%s: %+v, want %+v", command, got, want)
		}
	}
}
