package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestMeterCountsPackagesAndKeepsComplaints(t *testing.T) {
	m := newMeter(io.Discard, "kube-apiserver")
	defer m.stop()
	if got := m.String(); !strings.Contains(got, "resolving") {
		t.Errorf("progress %q before it is known what to compile", got)
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

func TestMeterSaysLinkingWhenNothingIsLeftToCompile(t *testing.T) {
	m := newMeter(io.Discard, "etcd")
	defer m.stop()
	m.expect(0)
	if got, want := m.String(), "etcd linking"; got != want {
		t.Errorf("progress %q, want %q", got, want)
	}
}

func TestNewestUsableSet(t *testing.T) {
	store := t.TempDir()
	suffix := "-" + runtime.GOOS + "-" + runtime.GOARCH
	for name, files := range map[string][]string{
		"1.36.9" + suffix:         binaries(),
		"1.36.10" + suffix:        binaries(),
		"1.37.0" + suffix:         {"etcd", "kube-apiserver"}, // without kubectl
		"1.30.0" + suffix:         binaries(),                 // too old
		"1.37.0-plan9-mips":       binaries(),
		"latest" + suffix:         binaries(),
		"1.36.11-darwin-riscv128": binaries(),
	} {
		writeSet(t, filepath.Join(store, name), files)
	}
	if got, want := newestUsable(store, "v1.37.1"), filepath.Join(store, "1.36.10"+suffix); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := newestUsable(filepath.Join(store, "absent"), "v1.37.1"); got != "" {
		t.Errorf("a store that does not exist gave %q", got)
	}
}

func TestAssetsThatAreNamedAreTakenOrRefusedByName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	writeSet(t, dir, []string{"etcd", "kube-apiserver"})
	if _, err := obtain(context.Background(), io.Discard); err == nil || !strings.Contains(err.Error(), "no kubectl") {
		t.Errorf("a set without kubectl: %v", err)
	}
	writeSet(t, dir, binaries())
	if got, err := obtain(context.Background(), io.Discard); err != nil || got != dir {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestVersionsComeFromGoMod(t *testing.T) {
	pinned, err := readPins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{pinned.kubernetes, pinned.etcd} {
		if _, ok := parseVersion(v); !ok {
			t.Errorf("%q is not a version", v)
		}
	}
	if flags := linkerFlags("v1.37.1"); !strings.Contains(flags, "gitVersion=v1.37.1 ") || !strings.HasSuffix(flags, "gitMinor=37") {
		t.Errorf("linker flags %q", flags)
	}
}

func TestTheLockIsTakenByOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(canceled, path, io.Discard); err == nil {
		t.Fatal("two hold the lock")
	}
	unlock()
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func writeSet(t *testing.T, dir string, files []string) {
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
