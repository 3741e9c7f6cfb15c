package seals

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func replace(t *testing.T, name, text string) {
	t.Helper()
	testkit.WriteFile(t, name+".new", []byte(text))
	check.NoError(t, os.Rename(name+".new", name))
}

// mountedFile trusts the old key at first, never both.
type mountedFile struct {
	*File

	name            string
	old, recent     ssh.Signer
	statement       Statement
	byOld, byRecent string
	log             bytes.Buffer
}

func newMountedFile(t *testing.T) *mountedFile {
	t.Helper()
	m := &mountedFile{name: filepath.Join(t.TempDir(), "signers"), old: newSSHKey(t), recent: newSSHKey(t), statement: statementOfAnn()}
	m.byOld, m.byRecent = sign(t, m.old, Namespace, m.statement), sign(t, m.recent, Namespace, m.statement)
	m.trust(t, m.old)
	file, err := Open(m.name, slog.New(slog.NewTextHandler(&m.log, nil)))
	check.NoError(t, err)
	m.File = file
	return m
}

func (m *mountedFile) trust(t *testing.T, key ssh.Signer) {
	t.Helper()
	replace(t, m.name, "* "+authorized(key.PublicKey())+"\n")
}

func TestAKeyThatIsTakenOutOfTheFileCountsNoMore(t *testing.T) {
	m := newMountedFile(t)
	identities := map[string]bool{} // of the keys in force, and whether they are the old one
	check := func(when string, oldCounts, recentCounts bool) {
		t.Helper()
		identity := m.Identity()
		if old, known := identities[identity]; known && old != oldCounts {
			t.Errorf("%s: other keys have the same identity", when)
		}
		identities[identity] = oldCounts
		for range 2 { // the second time it is not read again
			if err := m.Verify(m.statement, m.byOld); (err == nil) != oldCounts {
				t.Errorf("%s: the old key: %v", when, err)
			}
			if err := m.Verify(m.statement, m.byRecent); (err == nil) != recentCounts {
				t.Errorf("%s: the new key: %v", when, err)
			}
		}
	}
	check("at first", true, false)
	m.trust(t, m.recent)
	check("replaced", false, true)
	replace(t, m.name, "* ssh-ed25519 nonsense\n")
	check("broken", false, true)
	if told := strings.Count(m.log.String(), "level=ERROR"); told != 1 || !strings.Contains(m.log.String(), "signers:1") {
		t.Errorf("a broken file is told %d times: %s", told, m.log.String())
	}
	if err := os.Remove(m.name); err != nil {
		t.Fatal(err)
	}
	check("away", false, true)
	if told := strings.Count(m.log.String(), "level=ERROR"); told != 2 {
		t.Errorf("a file that went away is told %d times: %s", told-1, m.log.String())
	}
	m.trust(t, m.old)
	check("back", true, false)
	if len(identities) != 2 {
		t.Errorf("two files have %d identities", len(identities))
	}
}

// exhaust lets the process open no more files while f runs: a file can be looked at then, and not opened.
func exhaust(t *testing.T, f func()) {
	t.Helper()
	var limit syscall.Rlimit
	check.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	check.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}))
	defer func() {
		check.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	}()
	f()
}

func TestAFileThatCannotBeOpenedIsToldOnceAndReadAsSoonAsItCan(t *testing.T) {
	m := newMountedFile(t)
	m.trust(t, m.recent)
	exhaust(t, func() {
		if _, err := os.Stat(m.name); err != nil {
			t.Errorf("looked at: %v", err)
		}
		for range 3 {
			if err := m.Verify(m.statement, m.byOld); err != nil {
				t.Errorf("the last good keys are not in force: %v", err)
			}
		}
	})
	if told := strings.Count(m.log.String(), "level=ERROR"); told != 1 || !strings.Contains(m.log.String(), "too many open files") {
		t.Errorf("told %d times: %s", told, m.log.String())
	}
	if m.Verify(m.statement, m.byOld) == nil || m.Verify(m.statement, m.byRecent) != nil {
		t.Error("the file can be opened, and was not")
	}
}

func TestABadFileIsRefusedAtTheStart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "signers")
	if _, err := Open(name, slog.New(slog.DiscardHandler)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	replace(t, name, "ann@example.org\n")
	_, err := Open(name, slog.New(slog.DiscardHandler))
	if refusal, ok := errors.AsType[*FileError](err); !ok || refusal.Line != 1 || refusal.Path != name {
		t.Errorf("a bad file: %v", err)
	}
}
