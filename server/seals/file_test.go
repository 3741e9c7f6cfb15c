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
)

// replace puts another file in place of a mounted one, as the kubelet does.
func replace(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func TestAKeyThatIsTakenOutOfTheFileCountsNoMore(t *testing.T) {
	var log bytes.Buffer
	key, other := newSSHKey(t), newSSHKey(t)
	name := filepath.Join(t.TempDir(), "signers")
	replace(t, name, "* "+authorized(key.PublicKey())+"\n")
	file, err := Open(name, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	statement := statementOfAnn()
	old, recent := sign(t, key, Namespace, statement), sign(t, other, Namespace, statement)
	check := func(when string, oldCounts, recentCounts bool) {
		t.Helper()
		for range 2 { // the second time it is not read again
			if err := file.Verify(statement, old); (err == nil) != oldCounts {
				t.Errorf("%s: the old key: %v", when, err)
			}
			if err := file.Verify(statement, recent); (err == nil) != recentCounts {
				t.Errorf("%s: the new key: %v", when, err)
			}
		}
	}
	check("at first", true, false)
	replace(t, name, "* "+authorized(other.PublicKey())+"\n")
	check("replaced", false, true)
	replace(t, name, "* ssh-ed25519 nonsense\n")
	check("broken", false, true)
	if told := strings.Count(log.String(), "level=ERROR"); told != 1 || !strings.Contains(log.String(), "signers:1") {
		t.Errorf("a broken file is told %d times: %s", told, log.String())
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	check("away", false, true)
	if told := strings.Count(log.String(), "level=ERROR"); told != 2 {
		t.Errorf("a file that went away is told %d times: %s", told-1, log.String())
	}
	replace(t, name, "* "+authorized(key.PublicKey())+"\n")
	check("back", true, false)
}

// exhaust lets the process open no more files while f runs: a file can be looked at then, and not opened.
func exhaust(t *testing.T, f func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

func TestAFileThatCannotBeOpenedIsToldOnceAndReadAsSoonAsItCan(t *testing.T) {
	var log bytes.Buffer
	key, other := newSSHKey(t), newSSHKey(t)
	name := filepath.Join(t.TempDir(), "signers")
	replace(t, name, "* "+authorized(key.PublicKey())+"\n")
	file, err := Open(name, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	statement := statementOfAnn()
	old, recent := sign(t, key, Namespace, statement), sign(t, other, Namespace, statement)
	replace(t, name, "* "+authorized(other.PublicKey())+"\n")
	exhaust(t, func() {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("looked at: %v", err)
		}
		for range 3 {
			if err := file.Verify(statement, old); err != nil {
				t.Errorf("the last good keys are not in force: %v", err)
			}
		}
	})
	if told := strings.Count(log.String(), "level=ERROR"); told != 1 || !strings.Contains(log.String(), "too many open files") {
		t.Errorf("told %d times: %s", told, log.String())
	}
	if file.Verify(statement, old) == nil || file.Verify(statement, recent) != nil {
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
