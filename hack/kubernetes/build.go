package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// target is a program of the set and its package.
type target struct{ name, pkg string }

// targets are in the order of compiling. etcd is first because it is small, so a compile error shows early.
func targets() []target {
	return []target{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	}
}

// compile builds the set into dir.
func compile(ctx context.Context, dir string, pinned pins, progress io.Writer) error {
	fmt.Fprintf(progress, "kubernetes: compiling kube-apiserver and kubectl %s and etcd %s, once; this usually takes 4 to 18 minutes on two cores\n",
		pinned.kubernetes, pinned.etcd)
	for _, t := range targets() {
		if err := build(ctx, t, filepath.Join(dir, t.name), pinned, progress); err != nil {
			return err
		}
	}
	return nil
}

// build compiles one program, and shows how many of the packages that are not in the build cache are compiled.
func build(ctx context.Context, t target, out string, pinned pins, progress io.Writer) error {
	counted := newMeter(t.name)
	stop := show(progress, counted)
	defer stop()
	stale, err := output(goCommand(ctx, "list", "-deps", "-trimpath", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", t.pkg))
	if err != nil {
		return fmt.Errorf("list the packages of %s: %w", t.name, err)
	}
	counted.expect(len(strings.Fields(stale)))
	flags, err := linkerFlags(pinned.kubernetes)
	if err != nil {
		return err
	}
	cmd := goCommand(ctx, "build", "-v", "-trimpath", "-ldflags", flags, "-o", out, t.pkg)
	cmd.Stderr = counted
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", t.name, err, counted.complaints())
	}
	return nil
}

// linkerFlags strip debugging symbols and set the version, because kubectl compares its version with the API server's.
func linkerFlags(kubernetes string) (string, error) {
	v, err := parseVersion(kubernetes)
	if err != nil {
		return "", err
	}
	const set = " -X k8s.io/component-base/version."
	return fmt.Sprintf("-s -w%[1]sgitVersion=%[2]s%[1]sgitMajor=%[3]d%[1]sgitMinor=%[4]d", set, kubernetes, v.Major, v.Minor), nil
}
