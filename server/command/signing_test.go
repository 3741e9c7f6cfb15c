package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// workshop is a folder with an exam, Ann's SSH key and the board's PEM key, made by the tools that people have, and a
// program examprep.
type workshop struct {
	t      *testing.T
	folder string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{t, t.TempDir()}
	self, err := os.Executable()
	check.NoError(t, err)
	sample := testkit.ReadFile(t, "testdata/geography.yaml")
	w.write("bin/examprep", fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asCommand, self), 0o700)
	w.write("exams/geography.yaml", string(sample), 0o600)
	w.run(`ssh-keygen -q -t ed25519 -N "" -C "" -f ann
		ssh-keygen -q -t rsa -b 2048 -N "" -C "" -f stranger
		openssl ecparam -name prime256v1 -genkey -noout -out board.pem`)
	return w
}

func (w *workshop) write(name, text string, mode os.FileMode) {
	w.t.Helper()
	name = filepath.Join(w.folder, name)
	check.NoError(w.t, os.MkdirAll(filepath.Dir(name), 0o700))
	check.NoError(w.t, os.WriteFile(name, []byte(text), mode))
}

func (w *workshop) try(script string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = w.folder
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(w.folder, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *workshop) run(script string) string {
	w.t.Helper()
	out, err := w.try(script)
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

func (w *workshop) fails(script, want string) {
	w.t.Helper()
	if out, err := w.try(script); err == nil || !strings.Contains(out, want) {
		w.t.Errorf("%s: %v, want …%s…:\n%s", script, err, want, out)
	}
}

func pageScripts(t *testing.T, heading string) []string {
	t.Helper()
	text := testkit.ReadFile(t, "../../docs/exams.md")
	_, section, found := strings.Cut(string(text), "\n### "+heading+"\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatalf("docs/exams.md has no section %q", heading)
	}
	return regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(section, -1)
}

// TestSealsAreSignedAsThePageSays runs the commands of docs/exams.md with the real ssh-keygen and openssl.
func TestSealsAreSignedAsThePageSays(t *testing.T) {
	w := newWorkshop(t)
	scripts := pageScripts(t, "Signed seals")
	if len(scripts) != 2 {
		t.Fatalf("%d blocks of commands", len(scripts))
	}
	database := testkit.EmptyDatabase(t)
	w.run("examprep migrate --environment production --database-url '" + database + "'")
	publish := "examprep content publish --trusted-verifiers trusted-verifiers --database-url '" + database + "' exams/"
	w.write("trusted-verifiers", "* "+w.run("cat stranger.pub"), 0o600)
	w.run("examprep content digest --write --by ann@example.org --at 2026-01-31 exams/")
	w.fails(publish, "the signature is missing")
	for i, script := range scripts {
		out := w.run(script)
		if !strings.Contains(out, "signature written") || !strings.Contains(out, "no problem found") {
			t.Errorf("%s printed\n%s", script, out)
		}
		check.Contains(t, w.run(publish), fmt.Sprintf("revision %d published, 1 papers", i+1), "published")
	}

	w.run("sed -i 's/choice: B/choice: C/' exams/geography.yaml")
	w.fails(publish, "but its digest is")
	if out := w.run("examprep content digest --write --by ann@example.org --at 2026-02-01 exams/; cat exams/geography.yaml"); !strings.Contains(out, "SEAL DIFFERS") &&
		!strings.Contains(out, "stale signature removed: sign again") || strings.Contains(out, "signature: ") {
		t.Errorf("a stale signature lingers:\n%s", out)
	}
	w.run(`examprep content digest --message exams/ | ssh-keygen -Y sign -n examprep.dev -f stranger |
		examprep content digest --signature - exams/geography.yaml`)
	w.fails(publish, "no trusted verifier's")
	w.fails(publish, "B → C")
	w.fails("examprep content lint --trusted-verifiers trusted-verifiers exams/", "no trusted verifier's")
}

func TestABadFileOfTrustedVerifiersIsRefusedAtTheStart(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "signers")
	testkit.WriteFile(t, bad, []byte("# the board\nann@example.org\n"))
	t.Setenv("EXAMPREP_TRUSTED_VERIFIERS", bad)
	for _, command := range []string{"lint", "publish"} {
		var stderr bytes.Buffer
		code := patient().Execute([]string{"content", command, "testdata/geography.yaml"}, strings.NewReader(""), &stderr, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), "signers:2: has principals and no key") {
			t.Errorf("%s: exit code %d: %s", command, code, stderr.String())
		}
	}
}
