package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// testTimeout is how long the test of a mutant may run. A test that it ends has not caught the mutant.
const testTimeout = "10m"

// tester runs tests on changed files of the repository root.
type tester struct {
	root     string
	overlays string // a folder for the changed files
	cache    string // the build cache for mutants
}

// try returns nil if the test of a mutant fails on its code.
func (t tester) try(ctx context.Context, m *mutant) error {
	overlay, err := t.overlay(m)
	if err != nil {
		return err
	}
	out, failed := t.goTest(ctx, []string{"GOCACHE=" + t.cache}, "-count=1", "-overlay", overlay, "-run", m.pattern(), m.pkg)
	return judge(failed, out)
}

// control returns nil if tests pass on the unchanged code. Go keeps that result, so a second run costs nothing.
func (t tester) control(ctx context.Context, pkg, pattern string) error {
	if out, failed := t.goTest(ctx, nil, "-run", pattern, pkg); failed {
		return fmt.Errorf("the tests fail:\n%s", out)
	}
	return nil
}

// goTest runs go test with the flags of make test-short, so that both share what they compile. Lint has looked already: no vet.
// The linker leaves out what debuggers read, which is half of its work.
func (t tester) goTest(ctx context.Context, env []string, args ...string) (out []byte, failed bool) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-trimpath", "-vet=off", "-ldflags=-w", "-timeout", testTimeout}, args...)...)
	var printed bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.root, &printed, &printed
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	return printed.Bytes(), err != nil
}

// overlay writes the changed file and the list of changed files for go test, and returns the name of the list.
func (t tester) overlay(m *mutant) (string, error) {
	file, err := filepath.Abs(filepath.Join(t.root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed, err := m.apply(string(text))
	if err != nil {
		return "", err
	}
	name := filepath.Join(t.overlays, fmt.Sprintf("%d-%s", m.line, filepath.Base(file)))
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: name}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
		return "", err
	}
	return name + ".json", os.WriteFile(name+".json", list, 0o600)
}

// judge reads what go test printed. A mutant is caught when a test failed or panicked.
func judge(failed bool, out []byte) error {
	switch {
	case bytes.Contains(out, []byte("[no tests to run]")):
		return fmt.Errorf("the package has no such test")
	case !failed && bytes.Contains(out, []byte("[no test files]")):
		return fmt.Errorf("the package has no tests")
	case !failed:
		return fmt.Errorf("the test passes or is skipped")
	case regexp.MustCompile(`\[(build|setup) failed\]`).Match(out):
		return fmt.Errorf("it does not compile:\n%s", out)
	case bytes.Contains(out, []byte("panic: test timed out")):
		return fmt.Errorf("the test did not end within %s", testTimeout)
	case !regexp.MustCompile(`(?m)^(\s*--- FAIL: |panic: |fatal error: )`).Match(out):
		return fmt.Errorf("no test failed:\n%s", out)
	}
	return nil
}
