package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
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
		check.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
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
		check.Equal(t, needsOf(t.Context(), root, strings.Fields(command)).npm, want, "%s", command)
	}
}

func TestNeedsFollowTheTestedPackages(t *testing.T) {
	root, err := state.ProjectRoot()
	check.NoError(t, err)
	for command, want := range map[string]needs{
		"go test ./controllers":                         {cluster: true},
		"go test -race examprep.dev/controllers":        {cluster: true, compiler: true},
		"go test ./server/keys":                         {},
		"go test ./hack/dev/controlplane ./server/gate": {binaries: true},
		"go -C hack/chart test .":                       {cluster: true},
		"go test ./absent":                              {cluster: true, npm: true},
	} {
		check.Equal(t, needsOf(t.Context(), root, strings.Fields(command)), want, "%s", command)
	}
}
