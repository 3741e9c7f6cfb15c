package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// defaultConcurrency is how many tries a worker has under way at once.
	defaultConcurrency = 1024
	// leaseMargin is what a lease outlasts the acknowledge time-out by: time to write the outcome down.
	leaseMargin = 20 * time.Second
	// retryPause is the wait after Redis or Postgres did not answer.
	retryPause = 500 * time.Millisecond
	// storeTimeout bounds one statement or Redis call.
	storeTimeout = 5 * time.Second
)

// WorkerConfig holds a worker's settings; zero values take the defaults.
type WorkerConfig struct {
	// Prefix begins every Redis name.
	Prefix string
	// AllowedRanges may be delivered to although they are not the public internet.
	AllowedRanges []netip.Prefix
	// CAPEM holds certificate authorities trusted beside the system's.
	CAPEM []byte
	// Concurrency is how many tries may be under way at once (1024).
	Concurrency int
	// Timeout is how long a receiver may take to acknowledge, 10 s (docs/spec.md, part 6).
	Timeout time.Duration
	// RetryBase is the wait before the first retry (10 s); each further one is five times as long.
	RetryBase time.Duration
	// SweepInterval is the time between two looks for due deliveries that no notification told of (1 s).
	SweepInterval time.Duration
	// LeaseMargin is what a lease outlasts Timeout by (20 s).
	LeaseMargin time.Duration
	// DisableAfter is how long an endpoint may fail without a success before it is disabled (5 days).
	DisableAfter time.Duration
	// Retention is how long events, deliveries and tries are kept at least (DefaultRetention; MinRetention or more). They
	// go by whole weeks.
	Retention  time.Duration
	Registerer prometheus.Registerer
	// Tracer makes spans of deliveries whose event was caused in a trace that is recorded; nil: none.
	Tracer trace.Tracer
	Logger *slog.Logger
	Now    func() time.Time
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	duration := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	duration(&c.Timeout, acknowledgeTimeout)
	duration(&c.RetryBase, defaultRetryBase)
	duration(&c.SweepInterval, time.Second)
	duration(&c.LeaseMargin, leaseMargin)
	duration(&c.DisableAfter, DisableAfter)
	duration(&c.Retention, DefaultRetention)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Worker relays the outbox to the stream and delivers what the stream names. Any number of them work side by side,
// without a leader.
type Worker struct {
	cfg     WorkerConfig
	pool    *pgxpool.Pool
	queries *webhooksdb.Queries
	keyring *Keyring
	stream  *stream
	sender  *sender
	lanes   *lanes
	secrets *secretCache
	metrics *workerMetrics
	keeper  *keeper
	outages *outages
	// lease is this worker's name on the rows that it has in hand.
	lease uuid.UUID
	// results is where finished tries wait for their common statement.
	results chan result
	noted   notes
	// gone are endpoints whose receivers said that they are, as they were seen then, until they are disabled. Only the
	// flusher uses it.
	gone map[uuid.UUID]time.Time
	// abandoned are disabled endpoints whose backlog is to be cancelled.
	abandoned chan uuid.UUID
	// triers make the tries; handed is how one that has ended a try gets the next.
	triers sync.WaitGroup
	handed chan leased
}

// NewWorker returns a worker. Its Redis client should be its own: blocking reads occupy connections.
func NewWorker(cfg WorkerConfig, pool *pgxpool.Pool, client redis.UniversalClient, keyring *Keyring) (*Worker, error) {
	cfg = cfg.withDefaults()
	if cfg.Retention < MinRetention {
		return nil, &ValidationError{Field: "retention", Detail: fmt.Sprintf("must be at least %s", MinRetention)}
	}
	sender, err := newSender(cfg.AllowedRanges, cfg.CAPEM, cfg.Timeout, cfg.Now)
	if err != nil {
		return nil, err
	}
	queries := webhooksdb.New(pool)
	w := &Worker{
		cfg: cfg, pool: pool, queries: queries, keyring: keyring,
		stream: newStream(client, cfg.Prefix), sender: sender, lanes: newLanes(cfg.Concurrency, cfg.Now),
		lease:   uuid.New(),
		results: make(chan result, cfg.Concurrency), noted: newNotes(), gone: make(map[uuid.UUID]time.Time),
		abandoned: make(chan uuid.UUID, maxAbandoned), handed: make(chan leased), outages: newOutages(cfg.Logger, cfg.Now),
	}
	w.lanes.leastPark = max(minPark, w.holdTime()+relaySlack) // beyond what is in a worker's hands
	w.secrets = newSecretCache(queries, keyring, cfg.Now, func(ctx context.Context, err error) {
		w.trouble(ctx, "reading signing secrets", err)
	})
	w.metrics = newWorkerMetrics(cfg.Registerer)
	w.keeper = newKeeper(pool, cfg.Retention, cfg.Registerer, cfg.Logger)
	return w, nil
}

// Run works until ctx ends; then it takes no more, finishes the tries that are under way (each has its time-out), writes
// down what came of them, and returns nil. Redis or Postgres being away makes it wait, never end.
func (w *Worker) Run(ctx context.Context) error {
	var intake, flusher sync.WaitGroup
	intake.Go(func() { w.relay(ctx) })
	intake.Go(func() { w.consume(ctx) })
	intake.Go(func() { w.dispatch(ctx) })
	intake.Go(func() { w.reclaim(ctx) })
	intake.Go(func() { w.recall(ctx) })
	intake.Go(func() { w.watch(ctx) })
	intake.Go(func() { w.cancelBacklogs(ctx) })
	intake.Go(func() { w.retain(ctx) })
	flusher.Go(func() { w.flushResults(ctx) })
	intake.Wait()
	w.giveBack(ctx)
	close(w.handed)
	w.triers.Wait()
	close(w.results)
	flusher.Wait()
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := w.stream.leave(leave); err != nil {
		w.cfg.Logger.Debug("the stream keeps this worker's name", "error", err)
	}
	return nil
}

// pause waits for d or the end of ctx, and reports whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// trouble takes what came of asking a store and reports whether it is an error. Only the first of a row of errors is
// logged, and that they are over; none when it is only that the worker stops.
func (w *Worker) trouble(ctx context.Context, doing string, err error) bool {
	switch {
	case err == nil:
		w.outages.worked(ctx, doing)
	case ctx.Err() == nil:
		w.outages.failed(ctx, doing, err)
	}
	return err != nil
}
