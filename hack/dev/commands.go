package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"examprep.dev/hack/dev/state"
)

func run(ctx context.Context, args []string) error {
	root, err := state.ProjectRoot()
	if err != nil {
		return err
	}
	verb, rest := "", []string(nil)
	if len(args) > 0 {
		verb, rest = args[0], args[1:]
	}
	if len(rest) > 0 {
		return runWith(ctx, root, verb, rest)
	}
	switch verb {
	case "up":
		return up(ctx, root, newConsole(os.Stdout))
	case "down":
		return down(ctx, root, false, os.Stdout)
	case "clean":
		return clean(ctx, root, os.Stdout)
	case "servers":
		return startTestServers(ctx, root, nil, newConsole(os.Stderr))
	default:
		return errUsage()
	}
}

// runWith runs a command that has arguments.
func runWith(ctx context.Context, root, verb string, args []string) error {
	c := newConsole(os.Stderr)
	switch {
	case verb == "down" && slices.Equal(args, []string{"tests"}):
		return down(ctx, root, true, os.Stdout)
	case verb == "deps" && len(args) == 1:
		return installDeps(ctx, args[0], c)
	case verb == "servers":
		return startTestServers(ctx, root, args, c)
	case verb == "hold":
		return hold(ctx, root, group(args[0]), args[1:], c)
	case verb == "test":
		return runTests(ctx, root, args, c)
	case verb == "npm":
		return runNPM(ctx, root, args, c)
	default:
		return errUsage()
	}
}

func errUsage() error {
	return errors.New("usage: dev up | dev down [tests] | dev clean | dev deps FOR | dev servers [PACKAGE…] | dev test COMMAND… | dev npm PROGRAM…")
}

// background is the scheduling priority of work that must not get in the way of what already serves.
const background = 10

// build compiles packages of the project with the flags that hack/kubernetes uses too, so that each is compiled once;
// without default.pgo, for which all of them would be compiled again.
func (e *environment) build(ctx context.Context, out, pkg string) error {
	var progress lineCounter
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-pgo=off", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir = e.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = &progress, &progress
	stop := still(ctx, func() { e.console.sayf("still compiling %s: %d packages so far", filepath.Base(out), progress.count()) })
	err := cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, progress.complaints())
	}
	return nil
}

// obtainControlPlane returns the folder of kube-apiserver, etcd and kubectl, which hack/kubernetes finds, downloads or
// compiles, at low priority.
func obtainControlPlane(ctx context.Context, root string, dir state.Dir, c *console) (string, error) {
	module := filepath.Join(root, "hack", "kubernetes")
	program := dir.Path("bin", "kubernetes")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", fmt.Errorf("make a directory for programs: %w", err)
	}
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	compile.Dir = module
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build hack/kubernetes: %w\n%s", err, out)
	}
	var found strings.Builder
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir = module
	cmd.Stdout, cmd.Stderr = &found, c.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The whole group: compilers are its children. It is given time to take its unfinished set away.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("run hack/kubernetes: %w", err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, background) // a courtesy
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("obtain kube-apiserver, etcd and kubectl: %w", err)
	}
	return strings.TrimSpace(found.String()), nil
}

// output runs a program to its end and returns what it printed; its error carries what it complained of.
func output(ctx context.Context, env []string, stdin string, path string, args ...string) (string, error) {
	var out, complaint strings.Builder
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, strings.TrimSpace(complaint.String()+out.String()))
	}
	return out.String(), nil
}
