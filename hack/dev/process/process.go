package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Spec describes a program to run and a check that it runs.
type Spec struct {
	Name string   // of its log and pid files; unique within a Supervisor
	Path string   // of the program
	Args []string // without the program's name
	Env  []string // added to the supervisor's environment
	Dir  string   // working directory; empty: the supervisor's

	// Credential is the user that runs the program; nil: the supervisor's own.
	Credential *syscall.Credential
	// StopSignal asks for an orderly end; zero: SIGTERM.
	StopSignal syscall.Signal
	// Grace is how long an orderly end may take before SIGKILL; zero: 30 s.
	Grace time.Duration
	// Ready is asked every 50 ms until it returns nil. It must return when its context ends; a death of the child is
	// noticed after it has returned. None: the child is ready as soon as it runs.
	Ready func(context.Context) error
	// Store marks a server whose repeated death means that its data or configuration is broken. After three deaths within
	// Window it stays down, and the Supervisor fails.
	Store bool
	// Window is the time in which the deaths of a Store are counted; zero: 1 min.
	Window time.Duration
	// Final marks a child that must not be restarted: its first death fails the Supervisor.
	Final bool
	// Occupied reports whether a start failed only because processes of the child's earlier life still run, given the last
	// lines that it logged. Such a start is repeated after growing pauses, and is not counted as a death.
	Occupied func(tail string) bool
	// Now is the clock that measures Window and how long the child ran; nil: time.Now.
	Now func() time.Time
}

const (
	readyPoll      = 50 * time.Millisecond
	defaultGrace   = 30 * time.Second
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 10 * time.Second
	steadyAfter    = 30 * time.Second // a child that ran this long is started again without waiting longer than at first
	maxDeaths      = 3
	defaultWindow  = time.Minute
	tailLines      = 20
)

// ExitedError reports a child that ended before it was ready.
type ExitedError struct {
	Name  string
	State string // how it ended, in the words of os.ProcessState
	Log   string // path of its log
	Tail  string // the last lines of its log
}

// Error names the child, how it ended, and what it said last.
func (e *ExitedError) Error() string {
	return fmt.Sprintf("%s ended before it was ready (%s); the last of %s:\n%s", e.Name, e.State, e.Log, e.Tail)
}

// Supervisor owns children. Make one with New; Stop ends them all.
type Supervisor struct {
	logs, pids string
	report     func(format string, args ...any)

	mu       sync.Mutex
	children []*child
	stopped  bool
	failed   chan error
}

// New returns a supervisor that writes each child's output to logs/NAME.log and its process id to pids/NAME.pid,
// and passes deaths and restarts to report.
func New(logs, pids string, report func(format string, args ...any)) (*Supervisor, error) {
	for _, dir := range []string{logs, pids} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make a directory for children's files: %w", err)
		}
	}
	return &Supervisor{logs: logs, pids: pids, report: report, failed: make(chan error, 1)}, nil
}

// Failed delivers the first failure that cannot be repaired by starting a child again.
func (s *Supervisor) Failed() <-chan error { return s.failed }

// Start runs a child and returns when it is ready. From then on it is kept running until Stop. When it does not become
// ready, because it ended or because ctx did, it is stopped and not tried again.
func (s *Supervisor) Start(ctx context.Context, spec Spec) error {
	spec.Window = cmp.Or(spec.Window, defaultWindow)
	if spec.Now == nil {
		spec.Now = time.Now
	}
	c := &child{
		spec: spec, supervisor: s,
		log: filepath.Join(s.logs, spec.Name+".log"), pidFile: filepath.Join(s.pids, spec.Name+".pid"),
		stop: make(chan struct{}), done: make(chan struct{}), started: make(chan error, 1), died: make(chan *ExitedError, 1),
	}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return fmt.Errorf("start %s: the supervisor has stopped", spec.Name)
	}
	s.children = append(s.children, c)
	s.mu.Unlock()

	_ = os.Rename(c.log, c.log+".previous")
	go c.run()
	if err := <-c.started; err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	if err := c.awaitReady(ctx); err != nil {
		c.end()
		return err
	}
	if !c.phase.CompareAndSwap(starting, ready) {
		return <-c.died // between its last answer and now
	}
	return nil
}

// Stop ends all children, the last started first, each before the next, and returns when none is left.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	s.stopped = true
	children := s.children
	s.children = nil
	s.mu.Unlock()
	for _, c := range slices.Backward(children) {
		c.end()
	}
}

func (s *Supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// child is one supervised program over all its lives.
type child struct {
	spec       Spec
	supervisor *Supervisor
	log        string
	pidFile    string

	stop    chan struct{} // closed by end
	once    sync.Once
	done    chan struct{} // closed when run returns
	started chan error    // how the first start went
	died    chan *ExitedError
	phase   atomic.Int32
}

// The phases of a child: once ready it is restarted when it dies; if it dies before, it stays dead.
const (
	starting int32 = iota
	ready
	dead
)

// end stops the child for good and waits until it is gone.
func (c *child) end() {
	c.once.Do(func() { close(c.stop) })
	<-c.done
}

func (c *child) awaitReady(ctx context.Context) error {
	if c.spec.Ready == nil {
		return nil
	}
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	last := errors.New("never asked")
	for {
		select {
		case exited := <-c.died:
			return exited
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (last response %w, log %s)", c.spec.Name, context.Cause(ctx), last, c.log)
		case <-ticker.C:
			if last = c.spec.Ready(ctx); last == nil {
				return nil
			}
		}
	}
}

// run is the child's owner: it starts the program, waits for its end, and starts it again. It keeps its operating-system
// thread to itself, because Linux ties the signal at the parent's death to the thread that started the child.
func (c *child) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(c.done)
	defer os.Remove(c.pidFile)
	backoff := firstBackoff
	var deaths []time.Time
	for first := true; ; first = false {
		began := c.spec.Now()
		state, logStart, err := c.live(first)
		if first && err != nil {
			return
		}
		select {
		case <-c.stop:
			return
		default:
		}
		if err != nil {
			state = err.Error()
		}
		tail := lastLines(c.log, logStart, tailLines)
		if c.spec.Now().Sub(began) > steadyAfter {
			backoff = firstBackoff
		}
		if c.spec.Occupied != nil && c.spec.Occupied(tail) {
			c.supervisor.report("%s: processes of its earlier life still run; next start in %s", c.spec.Name, backoff)
		} else {
			deaths = c.recent(append(deaths, c.spec.Now()))
			if c.gone(state, tail, len(deaths)) {
				return
			}
			c.supervisor.report("%s died (%s) and is started again in %s; the last of %s:\n%s", c.spec.Name, state, backoff, c.log, tail)
		}
		timer := time.NewTimer(backoff)
		select {
		case <-timer.C:
		case <-c.stop:
			timer.Stop()
			return
		}
		backoff = min(2*backoff, longestBackoff)
	}
}

// gone reports a death after which the child is not started again: one before it was ready, the only one of a final
// child, and the last that a store may have.
func (c *child) gone(state, tail string, deaths int) bool {
	switch {
	case c.phase.CompareAndSwap(starting, dead):
		c.died <- &ExitedError{Name: c.spec.Name, State: state, Log: c.log, Tail: tail}
	case c.spec.Final:
		c.supervisor.fail(fmt.Errorf("%s died (%s); the last of %s:\n%s", c.spec.Name, state, c.log, tail))
	case c.spec.Store && deaths >= maxDeaths:
		c.supervisor.fail(fmt.Errorf("%s died %d times within %s (%s); the last of %s:\n%s", c.spec.Name, deaths, c.spec.Window, state, c.log, tail))
	default:
		return false
	}
	return true
}

// recent keeps the deaths within the window before the last one.
func (c *child) recent(deaths []time.Time) []time.Time {
	for last := deaths[len(deaths)-1]; last.Sub(deaths[0]) > c.spec.Window; {
		deaths = deaths[1:]
	}
	return deaths
}

// live is one life of the program: from its start to its end, asked for or not.
func (c *child) live(first bool) (state string, logStart int64, err error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		logStart = size(log)
		defer log.Close()
	}
	var cmd *exec.Cmd
	if err == nil {
		cmd = c.command(log)
		err = cmd.Start()
	}
	if err == nil {
		if err := os.WriteFile(c.pidFile, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644); err != nil {
			c.supervisor.report("%s: write its process id: %v", c.spec.Name, err)
		}
	}
	if first {
		c.started <- err
	}
	if err != nil {
		return "", logStart, err
	}
	gone := make(chan struct{})
	stopping := make(chan struct{})
	go func() {
		defer close(stopping)
		c.stopWhenAsked(cmd.Process, gone)
	}()
	_ = cmd.Wait() // how it ended is read from its state
	close(gone)
	<-stopping
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it started and left behind
	return cmd.ProcessState.String(), logStart, nil
}

func (c *child) command(log *os.File) *exec.Cmd {
	// The child's life is not bound to a context: it ends through its stop signal, in order.
	cmd := exec.Command(c.spec.Path, c.spec.Args...) //nolint:noctx // see above
	cmd.Env = append(os.Environ(), c.spec.Env...)
	cmd.Dir = c.spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.spec.Credential}
	dieWithParent(cmd.SysProcAttr, c.stopSignal())
	return cmd
}

func (c *child) stopSignal() syscall.Signal {
	if c.spec.StopSignal == 0 {
		return syscall.SIGTERM
	}
	return c.spec.StopSignal
}

// stopWhenAsked signals the process when end is called, and kills its whole group when the grace is over.
func (c *child) stopWhenAsked(process *os.Process, gone <-chan struct{}) {
	select {
	case <-gone:
		return
	case <-c.stop:
	}
	_ = process.Signal(c.stopSignal())
	grace := c.spec.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
		c.supervisor.report("%s did not stop within %s and is killed", c.spec.Name, grace)
		_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
	}
}
