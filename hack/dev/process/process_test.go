package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"examprep.dev/hack/dev/devtest"
	"examprep.dev/hack/dev/process"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// The children of these tests are this test binary itself, which behaves as CHILD says.
func TestMain(m *testing.M) {
	switch os.Getenv("CHILD") {
	case "":
		os.Exit(m.Run())
	case "listen":
		listen()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		listen()
	case "fail":
		fmt.Println("no such database")
		os.Exit(3)
	case "supervise":
		supervise()
	}
}

func listen() {
	fmt.Println("listening") // before a test can connect and kill this process
	listener, err := net.Listen("tcp", os.Getenv("ADDRESS"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func TestAChildIsReadyWhenItAnswersAndGoneAfterStop(t *testing.T) {
	s, pids, _ := newSupervisor(t)
	address := devtest.FreeAddress(t)
	start(t, s, listener("api", address))
	pid := readPID(t, pids, "api")
	s.Stop()
	if alive(pid) {
		t.Error("the child outlived Stop")
	}
	if _, err := os.Stat(filepath.Join(pids, "api.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the pid file outlived the child")
	}
}

func TestAKilledChildIsReportedAndStartedAgain(t *testing.T) {
	s, pids, reports := newSupervisor(t)
	address := devtest.FreeAddress(t)
	start(t, s, listener("worker", address))
	before := readPID(t, pids, "worker")
	check.NoError(t, syscall.Kill(before, syscall.SIGKILL))
	if report := testkit.Receive(t, reports, "a report of the death"); !strings.Contains(report, "worker died (signal: killed)") || !strings.Contains(report, "listening") {
		t.Errorf("report %q names neither the death nor its last words", report)
	}
	testkit.Eventually(t, "the child answers again", func() bool { return dial(address)(t.Context()) == nil })
	testkit.Eventually(t, "the child has another process ID", func() bool {
		after := readPID(t, pids, "worker")
		return after != before && after != 0
	})
}

func TestAChildThatEndsBeforeItIsReadyIsAnErrorWithItsLastWords(t *testing.T) {
	s, _, _ := newSupervisor(t)
	spec := listener("api", devtest.FreeAddress(t))
	spec.Env = []string{"CHILD=fail"}
	err := s.Start(t.Context(), spec)
	var exited *process.ExitedError
	if !errors.As(err, &exited) {
		t.Fatalf("got %v", err)
	}
	if exited.State != "exit status 3" || !strings.Contains(exited.Tail, "no such database") {
		t.Errorf("got %+v", exited)
	}
}

// clock is a clock that a test moves.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(0, c.passed.Load()) }

func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// nextLife waits until a child answers that is another process than the one with the ID before, and returns its ID.
func nextLife(t *testing.T, pids, address string, before int) (pid int) {
	t.Helper()
	testkit.Eventually(t, "the child runs again", func() bool {
		pid = readPID(t, pids, "postgres")
		return pid != 0 && pid != before && dial(address)(t.Context()) == nil
	})
	return pid
}

func kill(t *testing.T, pid int) {
	t.Helper()
	check.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

func TestAStoreThatKeepsDyingFailsTheSupervisor(t *testing.T) {
	s, pids, _ := newSupervisor(t)
	address := devtest.FreeAddress(t)
	spec := listener("postgres", address)
	var stopped clock // all deaths are within the window
	spec.Store, spec.Now = true, stopped.now
	start(t, s, spec)
	pid := 0
	for range maxDeaths {
		pid = nextLife(t, pids, address, pid)
		kill(t, pid)
	}
	err := testkit.Receive(t, s.Failed(), "the supervisor gives up")
	check.Contains(t, err.Error(), "postgres died 3 times within 1m0s", "failure")
}

func TestDeathsBeforeTheWindowAreNotCounted(t *testing.T) {
	s, pids, reports := newSupervisor(t)
	address := devtest.FreeAddress(t)
	spec := listener("postgres", address)
	var moved clock
	spec.Store, spec.Now, spec.Window = true, moved.now, time.Hour
	start(t, s, spec)
	pid := 0
	for range maxDeaths + 1 {
		pid = nextLife(t, pids, address, pid)
		moved.pass(time.Hour + 1)
		kill(t, pid)
		check.Contains(t, testkit.Receive(t, reports, "a report of the death"), "is started again in 100ms", "report")
	}
	for range maxDeaths - 1 {
		pid = nextLife(t, pids, address, pid)
		kill(t, pid)
	}
	err := testkit.Receive(t, s.Failed(), "the supervisor gives up after three deaths at one time")
	check.Contains(t, err.Error(), "postgres died 3 times within 1h0m0s", "failure")
}

// maxDeaths is the number of deaths within the window after which a store stays down.
const maxDeaths = 3

func TestDeathOfAFinalChildFailsTheSupervisor(t *testing.T) {
	s, pids, _ := newSupervisor(t)
	spec := listener("redis", devtest.FreeAddress(t))
	spec.Final = true
	start(t, s, spec)
	check.NoError(t, syscall.Kill(readPID(t, pids, "redis"), syscall.SIGKILL))
	if err := testkit.Receive(t, s.Failed(), "the supervisor fails"); !strings.Contains(err.Error(), "redis died (signal: killed)") || !strings.Contains(err.Error(), "listening") {
		t.Errorf("got %v", err)
	}
}

func TestStartIsRepeatedWhileTheEarlierLifeOccupiesTheData(t *testing.T) {
	s, _, reports := newSupervisor(t)
	spec := listener("postgres", devtest.FreeAddress(t))
	spec.Env = []string{"CHILD=fail"}
	spec.Store = true
	attempts := 0
	spec.Occupied = func(tail string) bool {
		attempts++
		return strings.Contains(tail, "no such database") && attempts <= occupiedStarts
	}
	err := s.Start(t.Context(), spec)
	if _, ok := errors.AsType[*process.ExitedError](err); !ok || attempts != occupiedStarts+1 {
		t.Errorf("got %v after %d attempts, want an ExitedError after %d", err, attempts, occupiedStarts+1)
	}
	for range occupiedStarts {
		check.Contains(t, testkit.Receive(t, reports, "a report of the start"), "still run", "report")
	}
}

// occupiedStarts is more starts than a broken store gets.
const occupiedStarts = maxDeaths + 1

func TestAChildThatIgnoresTheSignalIsKilledWhenTheGraceIsOver(t *testing.T) {
	s, pids, reports := newSupervisor(t)
	spec := listener("stubborn", devtest.FreeAddress(t))
	spec.Env = append(spec.Env, "CHILD=stubborn")
	spec.Grace = time.Millisecond
	start(t, s, spec)
	pid := readPID(t, pids, "stubborn")
	s.Stop()
	if alive(pid) {
		t.Error("the child outlived Stop")
	}
	check.Contains(t, testkit.Receive(t, reports, "a report of the kill"), "is killed", "report")
}

func TestWaitingForReadyEndsWithTheContext(t *testing.T) {
	s, pids, _ := newSupervisor(t)
	spec := listener("deaf", devtest.FreeAddress(t))
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	spec.Ready = func(context.Context) error {
		select {
		case <-asked:
		default:
			close(asked)
		}
		return errors.New("still loading")
	}
	go func() { <-asked; cancel() }()
	err := s.Start(ctx, spec)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "still loading") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(pids, "deaf.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the child was left running")
	}
}

// supervise is a supervisor in a process of its own, which the test below kills.
func supervise() {
	dir := os.Getenv("DIR")
	s, err := process.New(dir, dir, func(string, ...any) {})
	if err == nil {
		err = s.Start(context.Background(), listener("orphan", os.Getenv("ADDRESS")))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

func TestChildrenDieWithAKilledSupervisor(t *testing.T) {
	dir, address := t.TempDir(), devtest.FreeAddress(t)
	supervisor := exec.CommandContext(t.Context(), os.Args[0])
	supervisor.Env = append(os.Environ(), "CHILD=supervise", "DIR="+dir, "ADDRESS="+address)
	check.NoError(t, supervisor.Start())
	testkit.Eventually(t, "the child answers", func() bool { return dial(address)(t.Context()) == nil })
	var pid int
	testkit.Eventually(t, "the supervisor has written the child's process ID", func() bool {
		pid = readPID(t, dir, "orphan")
		return pid != 0
	})
	check.NoError(t, supervisor.Process.Kill())
	_ = supervisor.Wait()
	testkit.Eventually(t, "the child is gone", func() bool { return !alive(pid) })
}

func newSupervisor(t *testing.T) (s *process.Supervisor, pids string, reports chan string) {
	t.Helper()
	dir := t.TempDir()
	reports = make(chan string, 100)
	s, err := process.New(filepath.Join(dir, "log"), filepath.Join(dir, "pids"), func(format string, args ...any) {
		reports <- fmt.Sprintf(format, args...)
	})
	check.NoError(t, err)
	t.Cleanup(s.Stop)
	return s, filepath.Join(dir, "pids"), reports
}

func listener(name, address string) process.Spec {
	return process.Spec{
		Name: name, Path: os.Args[0], Env: []string{"CHILD=listen", "ADDRESS=" + address}, Ready: dial(address),
	}
}

func start(t *testing.T, s *process.Supervisor, spec process.Spec) {
	t.Helper()
	check.NoError(t, s.Start(t.Context(), spec))
}

func dial(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// readPID is the process id in a pid file, 0 while there is none.
func readPID(t *testing.T, dir, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name+".pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
