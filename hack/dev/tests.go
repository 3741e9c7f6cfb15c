package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// The variables for tests name the servers and the packages of hack/npm. A variable that is set already is kept, and
// nothing is started or installed for it.
const (
	testDatabase   = "EXAMPREP_TEST_DATABASE_URL"
	testRedis      = "EXAMPREP_TEST_REDIS_URL"
	testKubeconfig = "EXAMPREP_TEST_KUBECONFIG"
	testNPM        = "EXAMPREP_TEST_NPM"
	assets         = "KUBEBUILDER_ASSETS"
)

// startTestServers starts PostgreSQL and Redis, and what the tests of packages need besides.
func startTestServers(ctx context.Context, root string, packages []string, c *console) error {
	var n needs
	if len(packages) > 0 {
		n = needsOf(ctx, root, packages)
	}
	t := newTestServers(root, c)
	if _, err := t.ensure(ctx, n); err != nil {
		return err
	}
	c.sayf("the servers for tests run; .dev/test.env has their addresses")
	return nil
}

// runTests runs a command with the servers that its packages need. It interrupts the command as soon as one of them ends.
func runTests(ctx context.Context, root string, command []string, c *console) error {
	return newTestServers(root, c).run(ctx, needsOf(ctx, root, command), command)
}

func (t *testServers) run(ctx context.Context, n needs, command []string) error {
	found, err := t.ensure(ctx, n)
	if err != nil {
		return err
	}
	variables := make([]string, 0, len(found))
	for _, v := range found {
		variables = append(variables, v.Name+"="+v.Value)
	}
	t.console.sayf("%s", strings.Join(command, " "))
	group, running := errgroup.WithContext(ctx)
	watched, stop := context.WithCancel(running)
	group.Go(func() error { return t.watch(watched) })
	group.Go(func() error {
		defer stop()
		err := runCommand(running, t.root, command, variables)
		if err == nil {
			return nil
		}
		return cmp.Or(t.lost(), err) // tests fail sooner than watch looks
	})
	return group.Wait()
}

// runCommand runs the command with our output. Interrupted, its whole group is, and has time to clean up.
func runCommand(ctx context.Context, root string, command, variables []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the command left
		}
		return errors.New("interrupted")
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return &statusError{status: exit.ExitCode()}
	}
	return err
}

// statusError is the end of a command that ran and failed; its status becomes ours.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("exit status %d", e.status) }
