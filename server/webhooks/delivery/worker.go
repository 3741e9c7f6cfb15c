package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery/retention"
	"examprep.dev/server/webhooks/delivery/send"
)

const (
	// defaultConcurrency is how many attempts a worker has in flight at most.
	defaultConcurrency = 1024
	// leaseGrace is how much longer than the timeout a lease lasts: time to write the result. Timeout and grace together fit
	// into --shutdown-grace (25 s).
	leaseGrace = 10 * time.Second
)

// Ranges are ranges outside the public internet that webhooks may reach.
type Ranges = send.Ranges

// Config holds a worker's settings; zero values take the defaults.
type Config struct {
	// Prefix begins every Redis name.
	Prefix string
	// Allowed are ranges outside the public internet that endpoints may name.
	Allowed Ranges
	// CAPEM holds certificate authorities that are trusted in addition to the system's.
	CAPEM []byte
	// Concurrency is how many attempts may be in flight (1024).
	Concurrency int
	// Timeout is how long a receiver may take to acknowledge, 10 s (docs/spec.md, part 6).
	Timeout time.Duration
	// RetryDelays is the wait before each retry ([RetryDelays]).
	RetryDelays []time.Duration
	// SweepInterval is the time between two sweeps (1 s).
	SweepInterval time.Duration
	// LeaseGrace is how much longer than Timeout a lease lasts (10 s).
	LeaseGrace time.Duration
	// StatementTimeout limits each statement that leases deliveries, writes their results or the endpoints' health, or cancels
	// deliveries (5 s). A statement on a connection that has gone silent ends with it.
	StatementTimeout time.Duration
	// SweepTimeout limits the statement that finds endpoints with due deliveries (30 s).
	SweepTimeout time.Duration
	// Retention of events, deliveries and attempts, at least webhooks.MinRetention (webhooks.DefaultRetention). Rows are
	// deleted by the week.
	Retention time.Duration
	// RetentionTimeout limits each statement that maintains partitions (1 min).
	RetentionTimeout time.Duration
	Registerer       prometheus.Registerer
	// Tracer makes spans of deliveries whose event has a recorded trace; nil: none.
	Tracer trace.Tracer
	Logger *slog.Logger
	Now    func() time.Time
}

func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.Timeout = cmp.Or(c.Timeout, send.Timeout)
	c.SweepInterval = cmp.Or(c.SweepInterval, time.Second)
	c.LeaseGrace = cmp.Or(c.LeaseGrace, leaseGrace)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, statementTimeout)
	c.SweepTimeout = cmp.Or(c.SweepTimeout, sweepTimeout)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.RetryDelays == nil {
		c.RetryDelays = RetryDelays()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Worker delivers events. Any number of workers share the work, without a leader.
type Worker struct {
	cfg        Config
	stream     *stream
	sweeper    *sweeper
	canceller  *canceller
	dispatcher *dispatcher
	completer  *completer
	health     *healthRecorder
	retention  *retention.Maintainer
	maintainer *maintainer
	// results is the channel from the dispatcher's attempts to the completer.
	results chan completion
}

// New returns a worker. Its Redis client should be its own: blocking reads occupy connections.
func New(cfg Config, pool *pgxpool.Pool, client redis.UniversalClient, keyring *webhooks.Keyring) (*Worker, error) {
	cfg = cfg.withDefaults()
	sender, err := send.New(cfg.Allowed, cfg.CAPEM, cfg.Timeout, cfg.Now)
	if err != nil {
		return nil, err
	}
	partitions, err := retention.New(retention.Config{
		Retention: cfg.Retention, StatementTimeout: cfg.RetentionTimeout, Registerer: cfg.Registerer, Logger: cfg.Logger,
	}, pool)
	if err != nil {
		return nil, err
	}
	queries, lease, results := webhooksdb.New(pool), uuid.New(), make(chan completion, completeBatch)
	m, logger, now := newMetrics(cfg.Registerer), cfg.Logger, cfg.Now
	w, skipped := newWindows(cfg.Concurrency, now), newSkipList(skipTime)
	disabled := make(chan []uuid.UUID, 1)
	health := newHealthRecorder(queries, m, logger, cfg.StatementTimeout)
	return &Worker{
		cfg: cfg, results: results, health: health,
		stream: &stream{redis: client, name: webhooks.StreamName(cfg.Prefix), windows: w, logger: logger},
		sweeper: &sweeper{
			queries: queries, windows: w, interval: cfg.SweepInterval, timeout: cfg.SweepTimeout, disabled: disabled,
			metrics: m, logger: logger,
		},
		canceller: &canceller{
			queries: queries, endpoints: disabled, skipped: newSkipList(skipTime), metrics: m, logger: logger, now: now, timeout: cfg.StatementTimeout,
		},
		dispatcher: &dispatcher{
			queries: queries, lease: lease, duration: cfg.Timeout + cfg.LeaseGrace, windows: w, skipped: skipped, keyring: keyring,
			send: sender.Post, results: results, metrics: m, tracer: cfg.Tracer, logger: logger, now: now, timeout: cfg.StatementTimeout,
			unreadablePause: unreadablePause, leftOut: newSkipList(leaveOutTime), skips: newCounts(),
			leasing: make(chan struct{}, 1),
		},
		completer: &completer{
			queries: queries, lease: lease, results: results, delays: cfg.RetryDelays, skipped: skipped, health: health,
			metrics: m, logger: logger, now: now, timeout: cfg.StatementTimeout, duration: cfg.Timeout + cfg.LeaseGrace,
		},
		retention:  partitions,
		maintainer: &maintainer{queries: queries, keyring: keyring, windows: w, metrics: m, logger: logger, now: now},
	}, nil
}

// Run works until ctx ends. Then it leases nothing more: it finishes the attempts in flight, writes their results, and returns nil
// after Timeout and LeaseGrace at the latest. An outage of Redis or PostgreSQL makes it wait, never end.
func (w *Worker) Run(ctx context.Context) error {
	final, cancel := outlive(ctx, w.cfg.Timeout+w.cfg.LeaseGrace)
	defer cancel()
	var intake, completing sync.WaitGroup
	intake.Go(func() { w.stream.run(ctx) })
	intake.Go(func() { w.sweeper.run(ctx) })
	intake.Go(func() { w.canceller.run(ctx) })
	intake.Go(func() { w.health.run(ctx) })
	intake.Go(func() { w.retention.Run(ctx) })
	intake.Go(func() { w.maintainer.run(ctx) })
	for range dispatchLoops {
		intake.Go(func() { w.dispatcher.run(ctx, final) })
	}
	completing.Go(func() { w.completer.run(final) })
	intake.Wait()
	w.dispatcher.attempts.Wait()
	close(w.results)
	completing.Wait()
	if err := w.health.flush(final); err != nil {
		w.cfg.Logger.WarnContext(ctx, "health of endpoints not saved", "error", err)
	}
	return nil
}
