package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/postgres"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/testenv"
	"examprep.dev/server/webhooks"
)

// A test gives a worker process what it needs in these variables.
const (
	workerDatabase = "WEBHOOKS_TEST_WORKER_DATABASE"
	workerPrefix   = "WEBHOOKS_TEST_WORKER_PREFIX"
	workerCA       = "WEBHOOKS_TEST_WORKER_CA"
)

// TestMain runs a worker instead of the tests in a process that a test started.
func TestMain(m *testing.M) {
	if os.Getenv(workerDatabase) != "" {
		workUntilKilled()
	}
	os.Exit(m.Run())
}

func workUntilKilled() {
	fail := func(err error) {
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	pool, err := postgres.Open(ctx, os.Getenv(workerDatabase), postgres.Options{})
	fail(err)
	cache, err := testenv.Lookup(testkit.RedisVariable)
	fail(err)
	connection, err := redisurl.Open(cache, func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
	fail(err)
	ring, err := webhooks.ParseKeyring(testKeys)
	fail(err)
	cfg := Config{
		Prefix: os.Getenv(workerPrefix), Allowed: Ranges{Declared: loopback}, CAPEM: []byte(os.Getenv(workerCA)),
		Timeout: testkit.Patience, LeaseGrace: testkit.Patience, StatementTimeout: testkit.Patience, SweepTimeout: testkit.Patience,
	}
	if text := os.Getenv(workerPace); text != "" {
		var p pace
		fail(json.Unmarshal([]byte(text), &p))
		p.set(&cfg)
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
		go liveOnStdin()
	}
	w, err := New(cfg, pool, connection, ring)
	fail(err)
	fail(w.Run(ctx))
	stop()
	os.Exit(0)
}

// workerPace holds the times that a worker process keeps, as JSON of pace.
const workerPace = "WEBHOOKS_TEST_WORKER_PACE"

type pace struct {
	Timeout    time.Duration `json:"timeout"`
	LeaseGrace time.Duration `json:"lease_grace"`
	RetryBase  time.Duration `json:"retry_base"`
	Sweep      time.Duration `json:"sweep"`
	// Concurrency is as in WorkerConfig.
	Concurrency int `json:"concurrency"`
}

// chaosPace finds again within seconds what was lost. The lease outlasts a restart of PostgreSQL, as the real one does.
// Workers, receivers and stores share a machine, and the race detector may slow it down: more handshakes at once than it
// can make in time would each be a time-out and a duplicate.
var chaosPace = pace{
	Timeout: 4 * time.Second, LeaseGrace: 4 * time.Second, RetryBase: 50 * time.Millisecond, Sweep: 100 * time.Millisecond,
	Concurrency: 64,
}

func (p pace) set(cfg *Config) {
	cfg.Timeout, cfg.LeaseGrace, cfg.RetryDelays, cfg.SweepInterval = p.Timeout, p.LeaseGrace, delaysFrom(p.RetryBase), p.Sweep
	cfg.Concurrency, cfg.StatementTimeout, cfg.SweepTimeout = p.Concurrency, statementTimeout, sweepTimeout
}

// workerProcesses are workers that are started again whenever they end, as a cluster does.
type workerProcesses struct {
	environment []string
	log         *os.File

	mu      sync.Mutex
	running []*exec.Cmd
	// odd are unexpected ends: a panic, a data race.
	odd []string
	// peak is the most memory that one of them had, in KiB.
	peak int64
}

// newWorkerProcesses prepares processes that deliver from a database over a Redis.
func newWorkerProcesses(t *testing.T, count int, database, redis, prefix string, authorities []byte) *workerProcesses {
	t.Helper()
	text := testkit.Encode(t, chaosPace)
	log, err := os.Create(filepath.Join(t.TempDir(), "workers.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return &workerProcesses{
		environment: append(os.Environ(), workerDatabase+"="+database, workerPrefix+"="+prefix, workerCA+"="+string(authorities),
			workerPace+"="+string(text), testkit.RedisVariable+"="+redis),
		log: log, running: make([]*exec.Cmd, count),
	}
}

// keep runs one of the workers until ctx ends, and then lets it finish its attempts in flight.
func (p *workerProcesses) keep(ctx context.Context, slot int) error {
	for ctx.Err() == nil {
		worker := exec.CommandContext(context.WithoutCancel(ctx), os.Args[0])
		worker.Env, worker.Stderr = p.environment, p.log
		lifeline, err := worker.StdinPipe() // breaks when this process ends, however it does
		if err == nil {
			err = worker.Start()
		}
		if err != nil {
			return fmt.Errorf("start a worker: %w", err)
		}
		p.mu.Lock()
		p.running[slot] = worker
		p.mu.Unlock()
		stopAsking := context.AfterFunc(ctx, func() { _ = worker.Process.Signal(syscall.SIGTERM) })
		_ = worker.Wait()
		stopAsking()
		_ = lifeline.Close()
		p.ended(slot, worker.ProcessState)
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}

func (p *workerProcesses) ended(slot int, state *os.ProcessState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[slot] = nil
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		p.peak = max(p.peak, usage.Maxrss)
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
	case status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGTERM):
	case status.ExitStatus() == 0, status.ExitStatus() == 1: // 1: it could not reach PostgreSQL at its start
	default:
		p.odd = append(p.odd, state.String())
	}
}

// signal sends a worker a signal, if it runs.
func (p *workerProcesses) signal(slot int, signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if worker := p.running[slot]; worker != nil {
		_ = worker.Process.Signal(signal)
	}
}

// liveOnStdin ends this process when the one that started it is gone.
func liveOnStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// lastWords shows the end of what the workers logged.
func (p *workerProcesses) lastWords(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		t.Error(err)
	}
	t.Logf("the workers logged, at last:\n%s", text[max(0, len(text)-16<<10):])
}
