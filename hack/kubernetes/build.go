package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// target is a program of the set and the package it is built from.
type target struct{ name, pkg string }

// targets in the order of building: etcd is small and shows first that building works.
func targets() []target {
	return []target{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	}
}

// buildOnce builds the set into dir unless another run does so meanwhile, in which case it waits for that one.
func buildOnce(ctx context.Context, dir string, pinned pins, progress io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	unlock, err := lock(ctx, dir+".lock", progress)
	if err != nil {
		return err
	}
	defer unlock()
	if len(lacks(dir)) == 0 {
		return nil
	}
	// What a killed run left: the lock is ours, so nobody is writing there.
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("remove what an interrupted build left: %w", err)
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	started := time.Now()
	fmt.Fprintf(progress, "kubernetes: building kube-apiserver and kubectl %s and etcd %s, once, into %s\n", pinned.kubernetes, pinned.etcd, dir)
	for _, t := range targets() {
		if err := build(ctx, t, filepath.Join(partial, t.name), pinned, progress); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil { // an incomplete set of unknown origin
		return fmt.Errorf("replace an incomplete set: %w", err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("put the set in place: %w", err)
	}
	fmt.Fprintf(progress, "kubernetes: built in %s\n", time.Since(started).Round(time.Second))
	return nil
}

// build compiles one program, showing progress against the packages that are not in the build cache yet.
func build(ctx context.Context, t target, out string, pinned pins, progress io.Writer) error {
	meter := newMeter(progress, t.name)
	defer meter.stop()
	stale, err := output(goCommand(ctx, "list", "-deps", "-trimpath", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", t.pkg))
	if err != nil {
		return fmt.Errorf("list the packages of %s: %w", t.name, err)
	}
	meter.expect(len(strings.Fields(stale)))
	cmd := goCommand(ctx, "build", "-v", "-trimpath", "-ldflags", linkerFlags(pinned.kubernetes), "-o", out, t.pkg)
	cmd.Stderr = meter
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", t.name, err, meter.complaints())
	}
	return nil
}

// linkerFlags strip the symbols that nobody debugs here and stamp the version: kubectl and the API server compare theirs.
func linkerFlags(kubernetes string) string {
	const stamp = " -X k8s.io/component-base/version."
	major, minor := "", ""
	if v, ok := parseVersion(kubernetes); ok {
		major, minor = fmt.Sprint(v[0]), fmt.Sprint(v[1])
	}
	return "-s -w" + stamp + "gitVersion=" + kubernetes + stamp + "gitMajor=" + major + stamp + "gitMinor=" + minor
}

// lock takes an exclusive lock on path, which the kernel releases when the process ends, however it ends.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for told := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !told {
			fmt.Fprintln(progress, "kubernetes: another run is building the set; waiting for it")
			told = true
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for another run's build: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
