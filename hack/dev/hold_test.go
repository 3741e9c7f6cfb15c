package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// asCommand makes this test program behave as the command dev, which holders are.
const asCommand = "DEV_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// project makes a project without servers, and stops those that the test starts.
func project(t *testing.T) string {
	t.Helper()
	for _, name := range []string{testDatabase, testRedis} {
		t.Setenv(name, "")
	}
	t.Setenv(asCommand, "1")
	root, err := os.MkdirTemp("", "dev-test-") //nolint:usetesting // PostgreSQL's user cannot enter t.TempDir
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := errors.Join(down(context.Background(), root, false, io.Discard), os.RemoveAll(root)); err != nil {
			t.Error(err)
		}
	})
	check.NoError(t, errors.Join(os.Chmod(root, 0o755), os.WriteFile(filepath.Join(root, "go.mod"), []byte("module examprep.dev\n"), 0o600)))
	if err := servers.Require(needs{}.programs()...); err != nil {
		t.Skip(err)
	}
	return root
}

func TestServersForTestsStayAndAreReplacedWhenTheyDie(t *testing.T) {
	root := project(t)
	dir := groupDir(state.Dir(filepath.Join(root, ".dev")), stores)
	var both errgroup.Group
	for range 2 { // at once: one starts the servers, the other waits
		both.Go(func() error { return startTestServers(t.Context(), root, nil, newConsole(io.Discard)) })
	}
	check.NoError(t, both.Wait())
	env := filepath.Join(root, ".dev", state.TestEnvFile)
	first := modified(t, env)
	holder, server := pidIn(t, dir.Path(readyFile)), pidIn(t, dir.Path("pids", "postgres.pid"))
	start(t, root)
	check.Equal(t, pidIn(t, dir.Path(readyFile)), holder, "the holder was replaced though its servers run; its process")

	run := newTestServers(root, newConsole(io.Discard))
	_, err := run.ensure(t.Context(), needs{})
	check.NoError(t, err)
	kill(t, server, syscall.SIGKILL)
	if err := run.watch(t.Context()); err == nil || !strings.Contains(err.Error(), "postgres died (signal: killed)") {
		t.Errorf("a run that lost PostgreSQL got %v", err)
	}
	start(t, root)
	if again := pidIn(t, dir.Path("pids", "postgres.pid")); again == server || !answers(t, env, testDatabase) {
		t.Error("PostgreSQL was not replaced")
	}
	check.NoError(t, os.RemoveAll(dir.Path("redis")))
	if err := run.watch(t.Context()); err == nil {
		t.Error("a run whose data were deleted goes on")
	}
	start(t, root)
	if !answers(t, env, testRedis) {
		t.Error("Redis does not answer")
	}
	if again := modified(t, env); !again.Equal(first) {
		t.Error("test.env was rewritten: cached results of tests are lost")
	}

	check.NoError(t, down(t.Context(), root, true, io.Discard))
	if answers(t, env, testDatabase) || answers(t, env, testRedis) {
		t.Error("servers outlived dev down tests")
	}
}

// TestARunWaitsUntilAnotherHasWrittenTheVariables: both have found their servers at the same time.
func TestARunWaitsUntilAnotherHasWrittenTheVariables(t *testing.T) {
	root := project(t)
	t.Setenv(testDatabase, "postgres://given")
	t.Setenv(testRedis, "redis://given")
	synctest.Test(t, func(t *testing.T) {
		run := newTestServers(root, newConsole(io.Discard))
		unlock, err := run.dev.Lock(t.Context(), "test.env.lock", func() {})
		check.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := run.ensure(t.Context(), needs{})
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("it does not wait: %v", err)
			return
		default:
		}
		unlock()
		check.NoError(t, <-ended)
	})
}

func TestRunEndsWhenItsServersAreStopped(t *testing.T) {
	root := project(t)
	begun := filepath.Join(root, "begun")
	check.NoError(t, syscall.Mkfifo(begun, 0o600))
	var stopped errgroup.Group
	stopped.Go(func() error {
		if _, err := os.ReadFile(begun); err != nil { // until the command has opened it
			return err
		}
		return down(t.Context(), root, true, io.Discard)
	})
	run := newTestServers(root, newConsole(io.Discard))
	err := run.run(t.Context(), needs{}, []string{"sh", "-c", "echo >begun; exec sleep 600"})
	if _, ok := errors.AsType[*lostError](err); !ok {
		t.Errorf("got %v", err)
	}
	if err := stopped.Wait(); err != nil {
		t.Error(err)
	}
}

func start(t *testing.T, root string) {
	t.Helper()
	check.NoError(t, startTestServers(t.Context(), root, nil, newConsole(io.Discard)))
}

func kill(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	check.NoError(t, syscall.Kill(pid, signal))
}

func pidIn(t *testing.T, file string) int {
	t.Helper()
	text := testkit.ReadFile(t, file)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check.NoError(t, err)
	return pid
}

func modified(t *testing.T, file string) time.Time {
	t.Helper()
	info, err := os.Stat(file)
	check.NoError(t, err)
	return info.ModTime()
}

func answers(t *testing.T, env, variable string) bool {
	t.Helper()
	known, err := state.Dir(filepath.Dir(env)).ReadEnv(filepath.Base(env))
	check.NoError(t, err)
	to, err := url.Parse(known[variable])
	check.NoError(t, err)
	conn, err := net.Dial("tcp", to.Host)
	return err == nil && conn.Close() == nil
}
