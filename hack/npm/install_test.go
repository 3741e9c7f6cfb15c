package npm

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// fakeNPM puts a program called npm first in PATH: a script that also notes each run of it. It returns that note's path.
func fakeNPM(t *testing.T, script string) (runs string) {
	t.Helper()
	dir := t.TempDir()
	runs = filepath.Join(dir, "runs")
	text := "#!/bin/sh\nset -e\necho \"$@\" >>'" + runs + "'\n" + script + "\n"
	for _, name := range []string{"npm", "node"} {
		check.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return runs
}

const brings = "test -s package-lock.json\nmkdir -p node_modules/node-here/bin\necho here >node_modules/node-here/bin/node"

func TestPackagesAreInstalledOnceHoweverManyAsk(t *testing.T) {
	runs := fakeNPM(t, brings)
	cache := t.TempDir()
	dirs := make([]Dir, 8)
	var callers errgroup.Group
	for i := range dirs {
		callers.Go(func() (err error) {
			dirs[i], err = installIn(t.Context(), cache, io.Discard)
			return err
		})
	}
	check.NoError(t, callers.Wait())
	for _, dir := range dirs {
		if node, err := os.ReadFile(filepath.Join(string(dir), "bin", "node")); err != nil || string(node) != "here\n" {
			t.Errorf("in %s: Node is %q, %v", dir, node, err)
		}
	}
	noted := testkit.ReadFile(t, runs)
	if lines := strings.Split(strings.TrimSpace(string(noted)), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "--ignore-scripts") {
		t.Errorf("npm ran as %q, want once and without scripts", lines)
	}
}

func TestAFailedInstallationSaysWhyAndIsTriedAgain(t *testing.T) {
	cache := t.TempDir()
	fakeNPM(t, "mkdir node_modules\necho EINTEGRITY >&2\nexit 1")
	for range 2 {
		if _, err := installIn(t.Context(), cache, io.Discard); err == nil || !strings.Contains(err.Error(), "EINTEGRITY") {
			t.Fatalf("got %v, want what npm said", err)
		}
	}
	fakeNPM(t, "test ! -e node_modules\n"+brings)
	if _, err := installIn(t.Context(), cache, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestTheLockPinsEachPackageAndNamesNoHost(t *testing.T) {
	var lock struct {
		Packages map[string]struct {
			Version   string `json:"version"`
			Resolved  string `json:"resolved"`
			Integrity string `json:"integrity"`
		} `json:"packages"`
	}
	testkit.Decode(t, lockfile, &lock)
	if len(lock.Packages) < 2 {
		t.Fatalf("%d packages", len(lock.Packages))
	}
	for name, p := range lock.Packages {
		if name != "" && (p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "") {
			t.Errorf("%s: version %q, integrity %q, resolved %q", name, p.Version, p.Integrity, p.Resolved)
		}
	}
}
