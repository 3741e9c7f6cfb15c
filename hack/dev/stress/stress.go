package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// busyLoops run besides the tests, each in a thread of its own.
	busyLoops = 6
	// stressedAtOnce is the number of test programs that run at once.
	stressedAtOnce = 6
	// stopTime is how long each test program is stopped once.
	stopTime = 5 * time.Second
	// guessedTime bounds when a program of unknown duration is stopped.
	guessedTime = 30 * time.Second
)

// stress runs the tests of packages in rounds.
type stress struct {
	dir      string // of programs and logs
	rounds   int
	packages []stressed
	to       io.Writer

	mu                          sync.Mutex
	tests, skipped, runs, stops int
	failures                    []string
}

// stressed is a package with tests.
type stressed struct {
	path, folder, name string // its files in the folder of the run begin with name
}

// startLoops keeps threads busy until stop is called.
func startLoops(count int) (stop func()) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + count)
	var ended atomic.Bool
	for range count {
		go func() {
			for !ended.Load() { //nolint:revive // the loop only uses the processor
			}
		}()
	}
	return func() {
		ended.Store(true)
		runtime.GOMAXPROCS(before)
	}
}

// prepare finds the packages with tests, and builds their test programs.
func (s *stress) prepare(ctx context.Context, patterns []string) error {
	const format = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}"
	listed, err := goCommand(ctx, append([]string{"list", "-f", format}, patterns...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(listed) {
		path, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := strings.ReplaceAll(strings.TrimPrefix(path, "examprep.dev/"), "/", "-")
		s.packages = append(s.packages, stressed{path: path, folder: folder, name: name})
	}
	if len(s.packages) == 0 {
		return errors.New("these packages have no tests")
	}
	logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log")) // the pattern is well-formed
	for _, log := range logs {
		_ = os.Remove(log)
	}
	fmt.Fprintf(s.to, "compiling the tests of %d packages\n", len(s.packages))
	compilers, compiling := errgroup.WithContext(ctx)
	compilers.SetLimit(2)
	for _, p := range s.packages {
		compilers.Go(func() error {
			_, err := goCommand(compiling, "test", "-race", "-pgo=off", "-ldflags=-w", "-c", "-o", s.file(p.name+".test"), p.path)
			return err
		})
	}
	return compilers.Wait()
}

// goCommand runs go and returns what it printed.
func goCommand(ctx context.Context, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaint.Bytes())
	}
	return out.String(), nil
}

func (s *stress) file(name string) string { return filepath.Join(s.dir, name) }

// round runs each package's tests once, those first that took longest the last time.
func (s *stress) round(ctx context.Context, round int) {
	took := map[string]float64{}
	for _, p := range s.packages {
		text, _ := os.ReadFile(s.file(p.name + ".seconds")) // there is none before the first round
		took[p.name], _ = strconv.ParseFloat(string(text), 64)
	}
	slices.SortStableFunc(s.packages, func(a, b stressed) int { return cmp.Compare(took[b.name], took[a.name]) })
	var programs errgroup.Group
	programs.SetLimit(stressedAtOnce)
	for _, p := range s.packages {
		programs.Go(func() error {
			s.run(ctx, round, p, took[p.name])
			return nil
		})
	}
	_ = programs.Wait() // no program returns an error
}

// run runs a package's test program, which took so many seconds before, 0 if that is not known.
func (s *stress) run(ctx context.Context, round int, p stressed, seconds float64) {
	if ctx.Err() != nil {
		return
	}
	log := s.file(fmt.Sprintf("%d-%s.log", round, p.name))
	began := time.Now()
	stopped, err := s.start(ctx, p, log, stopMoment(seconds))
	if ctx.Err() != nil {
		return
	}
	text, readErr := os.ReadFile(log)
	ran, skipped, failed := outcomes(string(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	s.tests, s.skipped = s.tests+ran, s.skipped+skipped
	if stopped {
		s.stops++
	}
	if err = errors.Join(err, readErr); err != nil {
		names := cmp.Or(strings.Join(failed, " "), "no test failed")
		s.failures = append(s.failures, fmt.Sprintf("round %d %s: %v: %s; see %s", round, p.path, err, names, log))
		fmt.Fprintf(s.to, "FAILED %s\n", s.failures[len(s.failures)-1])
	} else {
		fmt.Fprintf(s.to, "round %d %s: %d tests in %.0f s\n", round, p.path, ran, time.Since(began).Seconds())
	}
	_ = os.WriteFile(s.file(p.name+".seconds"), fmt.Appendf(nil, "%.1f", time.Since(began).Seconds()), 0o600) // the next run guesses else
}

// start runs a test program to its end, and stops it once for stopTime. It reports whether the program was still running.
func (s *stress) start(ctx context.Context, p stressed, log string, moment time.Duration) (stopped bool, err error) {
	file, err := os.Create(log)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	cmd := exec.CommandContext(ctx, s.file(p.name+".test"), "-test.v", "-test.shuffle=on", "-test.timeout=60m", "-test.parallel=2")
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.folder, file, file
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.WaitDelay = stopTime
	if err := cmd.Start(); err != nil {
		return false, err
	}
	running, ended := context.WithCancel(ctx)
	stopping := make(chan bool)
	go func() { stopping <- stopOnce(running, cmd.Process, moment, stopTime) }()
	err = cmd.Wait()
	ended()
	return <-stopping, err
}

// stopOnce stops a process after moment and lets it go on after a time. It reports whether the process ran until then.
func stopOnce(running context.Context, process *os.Process, moment, length time.Duration) bool {
	pause(running, moment)
	if running.Err() != nil || process.Signal(syscall.SIGSTOP) != nil {
		return false
	}
	pause(running, length)
	_ = process.Signal(syscall.SIGCONT) // it fails if the process was killed
	return true
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// stopMoment returns a random moment in the life of a program that took so many seconds. If that is not known, each order
// of magnitude up to guessedTime is as likely as another.
func stopMoment(seconds float64) time.Duration {
	if seconds > 0 {
		return time.Duration(rand.Float64() * seconds * float64(time.Second))
	}
	return time.Duration(math.Pow(float64(guessedTime), rand.Float64()/2+0.5))
}

var outcomeLine = regexp.MustCompile(`(?m)^( *)--- (PASS|FAIL|SKIP): (\S+)`)

// outcomes counts the tests of a log, without subtests, and returns the names of all that failed.
func outcomes(log string) (ran, skipped int, failed []string) {
	names := map[string]bool{}
	for _, match := range outcomeLine.FindAllStringSubmatch(log, -1) {
		top := match[1] == ""
		switch {
		case match[2] == "FAIL":
			names[match[3]] = true
		case top && match[2] == "SKIP":
			skipped++
		}
		if top && match[2] != "SKIP" {
			ran++
		}
	}
	return ran, skipped, slices.Sorted(maps.Keys(names))
}

// sum describes all rounds.
func (s *stress) sum(took time.Duration) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d rounds of %d packages in %.0f s: %d programs (%d stopped for %.0f s), %d tests (%d skipped), %d failures\n",
		s.rounds, len(s.packages), took.Seconds(), s.runs, s.stops, stopTime.Seconds(), s.tests, s.skipped, len(s.failures))
	for _, failure := range s.failures {
		fmt.Fprintf(&text, "FAILED %s\n", failure)
	}
	return text.String()
}
