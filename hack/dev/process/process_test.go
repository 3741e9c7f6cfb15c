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
	"syscall"
	"testing"
	"time"

	"examprep.dev/hack/dev/devtest"
	"examprep.dev/hack/dev/process"
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
	if report := <-reports; !strings.Contains(report, "worker died (signal: killed)") || !strings.Contains(report, "listening") {
		t.Errorf("report %q names neither the death nor its last words", report)
	}
	eventually(t, func() bool { return dial(address)(t.Context()) == nil })
	eventually(t, func() bool { after := readPID(t, pids, "worker"); return after != before && after != 0 })
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

func TestAStoreThatKeepsDyingFailsTheSupervisor(t *testing.T) {
	s, pids, _ := newSupervisor(t)
	address := devtest.FreeAddress(t)
	spec := listener("postgres", address)
	spec.Store = true
	start(t, s, spec)
	for killed := 0; ; {
		select {
		case err := <-s.Failed():
			if !strings.Contains(err.Error(), "postgres died 3 times") {
				t.Errorf("got %v", err)
			}
			return
		case <-t.Context().Done():
			t.Fatal("the supervisor never gave up")
		default:
			if pid := readPID(t, pids, "postgres"); pid != 0 && pid != killed && dial(address)(t.Context()) == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				killed = pid
			}
		}
	}
}

func TestDeathOfAFinalChildFailsTheSupervisor(t *testing.T) {
	s, pids, _ := newSupervisor(t)
	spec := listener("redis", devtest.FreeAddress(t))
	spec.Final = true
	start(t, s, spec)
	check.NoError(t, syscall.Kill(readPID(t, pids, "redis"), syscall.SIGKILL))
	if err := <-s.Failed(); !strings.Contains(err.Error(), "redis died (signal: killed)") || !strings.Contains(err.Error(), "listening") {
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
		return strings.Contains(tail, "no such database") && attempts <= maxDeathsAndMore
	}
	err := s.Start(t.Context(), spec)
	if _, ok := errors.AsType[*process.ExitedError](err); !ok || attempts != maxDeathsAndMore+1 {
		t.Errorf("got %v after %d attempts, want an ExitedError after %d", err, attempts, maxDeathsAndMore+1)
	}
	for range maxDeathsAndMore {
		check.Contains(t, <-reports, "still run", "report")
	}
}

// maxDeathsAndMore is more starts than a broken store gets.
const maxDeathsAndMore = 4

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
	check.Contains(t, <-reports, "is killed", "report")
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
	eventually(t, func() bool { return dial(address)(t.Context()) == nil })
	pid := readPID(t, dir, "orphan")
	check.NoError(t, supervisor.Process.Kill())
	_ = supervisor.Wait()
	eventually(t, func() bool { return !alive(pid) })
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

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatal("it never came true")
		}
	}
}
