package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMeterCountsPackagesAndKeepsComplaints(t *testing.T) {
	m := newMeter("kube-apiserver")
	if got := m.String(); !strings.Contains(got, "resolving") {
		t.Errorf("progress %q before the number of packages is known", got)
	}
	m.expect(4)
	for _, chunk := range []string{"k8s.io/api/core/v1\nk8s.io/a", "pi/apps/v1\n", "# k8s.io/broken\n", "broken.go:3:1: undefined: x\n"} {
		if _, err := io.WriteString(m, chunk); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := m.String(), "kube-apiserver 2/4 packages"; got != want {
		t.Errorf("progress %q, want %q", got, want)
	}
	if got, want := m.complaints(), "# k8s.io/broken\nbroken.go:3:1: undefined: x"; got != want {
		t.Errorf("complaints %q, want %q", got, want)
	}
}

func TestMeterReportsLinkingIfAllPackagesAreCompiled(t *testing.T) {
	m := newMeter("etcd")
	m.expect(0)
	if got, want := m.String(), "etcd linking"; got != want {
		t.Errorf("progress %q, want %q", got, want)
	}
}

func TestAssetsVariableMustNameACompleteFolder(t *testing.T) {
	dir := t.TempDir()
	refused := func(value, reason string) {
		t.Helper()
		t.Setenv("KUBEBUILDER_ASSETS", value)
		if _, err := obtain(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "KUBEBUILDER_ASSETS: ") ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("%s: error %v, want KUBEBUILDER_ASSETS and %q", value, err, reason)
		}
	}
	refused(filepath.Join(dir, "absent"), "has no etcd, no kube-apiserver, no kubectl")
	writeSet(t, dir, "etcd", "kube-apiserver")
	refused(dir, "has no kubectl")
	writeSet(t, dir, "kubectl")
	t.Chdir(filepath.Dir(dir))
	refused(filepath.Base(dir), "not an absolute path")
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	if got, err := obtain(t.Context(), io.Discard); err != nil || got != dir {
		t.Errorf("got %q, %v; want %q", got, err, dir)
	}
}

func TestVersionsComeFromGoMod(t *testing.T) {
	pinned, err := readPins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{pinned.kubernetes, pinned.etcd} {
		if _, err := parseVersion(v); err != nil {
			t.Error(err)
		}
	}
	flags, err := linkerFlags("v1.37.1")
	if err != nil || !strings.Contains(flags, "gitVersion=v1.37.1 ") || !strings.HasSuffix(flags, "gitMinor=37") {
		t.Errorf("linker flags %q, %v", flags, err)
	}
	if flags, err := linkerFlags("v1.37"); err == nil {
		t.Errorf("linker flags %q of a version without patch number", flags)
	}
}

func TestLockExcludesAnotherRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(canceled, path, io.Discard); err == nil {
		t.Fatal("the lock was taken twice")
	}
	unlock()
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// writeSet makes executable files in dir.
func writeSet(t *testing.T, dir string, files ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
