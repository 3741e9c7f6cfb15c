package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestOutcomesAreCountedByTest(t *testing.T) {
	t.Parallel()
	ran, skipped, failed := outcomes(strings.Join([]string{
		"=== RUN   TestA", "--- PASS: TestA (0.00s)", "    --- PASS: TestA/part (0.00s)", "--- FAIL: TestB (0.10s)",
		"    --- FAIL: TestB/part (0.10s)", "    --- SKIP: TestB/other (0.00s)", "--- SKIP: TestC (0.00s)", "FAIL",
	}, "\n"))
	if ran != 2 || skipped != 1 || !slices.Equal(failed, []string{"TestB", "TestB/part"}) {
		t.Errorf("%d tests, %d skipped, failed: %q", ran, skipped, failed)
	}
}

func TestStopIsWithinTheTimeOfTheProgram(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if moment := stopMoment(3); moment < 0 || moment > 3*time.Second {
			t.Fatalf("a program of 3 s is stopped after %s", moment)
		}
		if moment := stopMoment(0); moment < 0 || moment > guessedTime {
			t.Fatalf("a program of an unknown time is stopped after %s", moment)
		}
	}
}

// stateOf returns the letter of a process's state: T if it is stopped.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}

func TestStoppedProgramGoesOn(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	check.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the test has killed it
	running, end := context.WithCancel(t.Context())
	stopped := make(chan bool)
	go func() { stopped <- stopOnce(running, cmd.Process, 0, testkit.Patience) }()
	testkit.Eventually(t, "the program is stopped", func() bool { return stateOf(t, cmd.Process.Pid) == "T" })
	end()
	if !testkit.Receive(t, stopped, "the stop ends") {
		t.Error("the stop is not reported")
	}
	testkit.Eventually(t, "the program goes on", func() bool { return stateOf(t, cmd.Process.Pid) != "T" })
}

func TestStressReportsFailures(t *testing.T) {
	t.Parallel()
	s := &stress{dir: t.TempDir(), rounds: 1, to: io.Discard}
	for name, script := range map[string]string{"good": "echo '--- PASS: TestA (0.00s)'", "bad": "echo '--- FAIL: TestB (0.00s)'; exit 1", "ended": "exit 2"} {
		check.NoError(t, os.WriteFile(filepath.Join(s.dir, name+".test"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		s.packages = append(s.packages, stressed{path: "examprep.dev/" + name, folder: s.dir, name: name})
	}
	s.round(t.Context(), 1)
	text := s.sum(time.Second)
	for _, part := range []string{
		"1 rounds of 3 packages in 1 s: 3 programs (", "2 tests (0 skipped), 2 failures", "FAILED round 1 examprep.dev/bad: exit status 1: TestB",
		"FAILED round 1 examprep.dev/ended: exit status 2: no test failed",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}
