package attempts

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/batch"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
)

const (
	// batchSize is the maximum number of calls in one statement.
	batchSize = 64
	// batchesInFlight is the maximum number of batches of one kind that run at once. Each holds a connection, so the three
	// kinds leave 8 of the pool's 20 connections.
	batchesInFlight = 4
	// queueSize is the maximum number of calls of one kind that wait, half of them of one key family. A further call fails at once.
	queueSize = 4096
	// batchTimeout and lockTimeout are the defaults of Config.BatchTimeout and Config.LockTimeout.
	batchTimeout = 10 * time.Second
	lockTimeout  = time.Second
)

// writer groups the statements of concurrent calls: all that wait share one statement, and so one commit.
type writer struct {
	opens  *group[attemptsdb.OpenAttemptParams, struct{}]
	finds  *group[uuid.UUID, *attemptRow]
	closes *group[attemptsdb.CloseAttemptParams, attemptsdb.CloseAttemptRow]
	stop   context.CancelFunc
}

// newWriter starts a writer. Close it after the last call.
func newWriter(queries *attemptsdb.Queries, notifier Notifier, cfg Config) *writer {
	life, stop := context.WithCancel(context.Background())
	timeout, registerer := cmp.Or(cfg.BatchTimeout, batchTimeout), cfg.Registerer
	q := statements{queries, strconv.FormatInt(cmp.Or(cfg.LockTimeout, lockTimeout).Milliseconds(), 10)}
	notify := func(results []attemptsdb.CloseAttemptRow) {
		var endpoints []uuid.UUID
		for _, r := range results {
			endpoints = append(endpoints, r.Endpoints...)
		}
		if len(endpoints) > 0 {
			notifier.Notify(endpoints...)
		}
	}
	return &writer{
		opens: newGroup(life, timeout, registerer, statement[attemptsdb.OpenAttemptParams, struct{}]{
			name: "open", one: q.openOne, many: q.openMany,
			// All opens of a key lock this counter.
			lock: func(seed maphash.Seed, p *attemptsdb.OpenAttemptParams) uint64 {
				return maphash.Comparable(seed, keyCounter(*p))
			},
		}),
		finds: newGroup(life, timeout, registerer, statement[uuid.UUID, *attemptRow]{
			name: "find", one: q.findOne, many: q.findMany,
		}),
		closes: newGroup(life, timeout, registerer, statement[attemptsdb.CloseAttemptParams, attemptsdb.CloseAttemptRow]{
			name: "close", one: q.closeOne, many: q.closeMany, committed: notify,
			lock: func(seed maphash.Seed, p *attemptsdb.CloseAttemptParams) uint64 {
				return maphash.Comparable(seed, p.ID)
			},
		}),
		stop: stop,
	}
}

// close cancels the statements that run, and returns when their callers have an error.
func (w *writer) close() {
	w.stop()
	w.opens.batches.Close()
	w.finds.batches.Close()
	w.closes.batches.Close()
}

// statement is what a [group] runs. Q is the type of a call's parameters, R that of its result.
type statement[Q, R any] struct {
	// name is the label of the metrics.
	name string
	// one runs a single call. PostgreSQL spends less on it than on a batch of one.
	one func(context.Context, Q) (R, error)
	// many runs several calls in one transaction, and returns their results in the same order.
	many func(context.Context, []Q) ([]R, error)
	// lock returns a hash of the row that the call locks first. Two running batches never have the same one. nil: no lock.
	lock func(maphash.Seed, *Q) uint64
	// committed gets the results of a batch before the callers do; nil: not called.
	committed func([]R)
}

// call is one caller's part of a batch.
type call[Q any] struct {
	params Q
	family uuid.UUID  // the fairness class
	span   trace.Span // the caller's
}

// group runs one kind of statement, once for all calls that wait.
type group[Q, R any] struct {
	statement[Q, R]

	life    context.Context //nolint:containedctx // a batch belongs to no caller
	timeout time.Duration
	batches *batch.Batcher[call[Q], R]
}

func newGroup[Q, R any](life context.Context, timeout time.Duration, registerer prometheus.Registerer, s statement[Q, R]) *group[Q, R] {
	g := &group[Q, R]{statement: s, life: life, timeout: timeout}
	seed := maphash.MakeSeed()
	cfg := batch.Config[call[Q], R]{
		Size: batchSize, InFlight: batchesInFlight, Queue: queueSize, Run: g.run,
		Class: func(c *call[Q]) uint64 { return maphash.Comparable(seed, c.family) },
	}
	if s.lock != nil {
		cfg.Exclusive = func(c *call[Q]) uint64 { return s.lock(seed, &c.params) }
	}
	g.batches = batch.New(cfg)
	labels := prometheus.Labels{"statement": s.name}
	register := promauto.With(registerer)
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "examprep_attempts_batch_waiting_calls", ConstLabels: labels,
		Help: "Calls that wait for a batch of their statement: open, find or close an attempt.",
	}, func() float64 { waiting, _ := g.batches.Load(); return float64(waiting) })
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "examprep_attempts_batch_running", ConstLabels: labels,
		Help: "Batches of the statement that run, at most 4.",
	}, func() float64 { _, running := g.batches.Load(); return float64(running) })
	return g
}

// do runs a call of a key family in a batch. It returns the errors of [batch.Batcher.Do] and those of the statement.
func (g *group[Q, R]) do(ctx context.Context, family uuid.UUID, params Q) (R, error) {
	return g.batches.Do(ctx, call[Q]{params: params, family: family, span: trace.SpanFromContext(ctx)})
}

// run answers a batch. The batch has a context of its own, so a caller that leaves cancels only its own call.
func (g *group[Q, R]) run(_ int, calls []*batch.Call[call[Q], R]) {
	ctx, cancel := context.WithTimeout(g.life, g.timeout)
	defer cancel()
	results, errs := g.results(ctx, calls)
	if g.committed != nil {
		g.committed(results)
	}
	for i, c := range calls {
		c.Answer(results[i], errs[i])
	}
}

// results runs the calls together. If PostgreSQL refused that for a reason that can be one call's, all was rolled back, and it runs
// them one by one. Any other error is the error of all calls.
func (g *group[Q, R]) results(ctx context.Context, calls []*batch.Call[call[Q], R]) ([]R, []error) {
	errs := make([]error, len(calls))
	if len(calls) > 1 {
		all := make([]Q, len(calls))
		spans := make([]trace.Span, len(calls))
		for i, c := range calls {
			all[i], spans[i] = c.Request.params, c.Request.span
		}
		results, err := g.many(postgres.WithTraces(ctx, spans...), all)
		if err == nil {
			return results, errs
		}
		if !postgres.Divides(err) {
			return make([]R, len(calls)), slices.Repeat([]error{err}, len(calls))
		}
	}
	results := make([]R, len(calls))
	for i, c := range calls {
		alone := postgres.WithTraces(ctx, c.Request.span)
		if results[i], errs[i] = g.one(alone, c.Request.params); sqlState(errs[i]) == deadlock {
			results[i], errs[i] = g.one(alone, c.Request.params)
		}
	}
	return results, errs
}

// deadlock is the SQLSTATE of a statement that PostgreSQL rolled back to end a deadlock.
const deadlock = "40P01"

// sqlState returns the SQLSTATE of PostgreSQL's error; empty if there is none.
func sqlState(err error) string {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusal.Code
	}
	return ""
}
