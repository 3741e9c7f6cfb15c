package attempts

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
)

const (
	// sweepBatch is how many attempts one statement closes: few enough that its locks are short.
	sweepBatch = 1000
	// sweepInterval is the time between two sweeps. An overdue attempt reads as expired before it is swept.
	sweepInterval = time.Minute
	// sweepTimeout bounds one statement: a connection that has gone silent must not end the sweeping.
	sweepTimeout = 10 * time.Second
)

// Sweeper closes overdue attempts: those whose deadline passed 24 hours ago by PostgreSQL's clock. It needs no namespace
// secret and no catalogue.
type Sweeper struct {
	queries *attemptsdb.Queries
	logger  *slog.Logger
	metrics struct {
		closed, failures, skipped prometheus.Counter
		overdue                   prometheus.Gauge
	}
}

// NewSweeper returns a sweeper on pool; registerer takes its metrics, nil: none. It panics when they are registered already.
func NewSweeper(pool *pgxpool.Pool, logger *slog.Logger, registerer prometheus.Registerer) *Sweeper {
	s := &Sweeper{queries: attemptsdb.New(pool), logger: logger}
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: "examprep_attempts_" + name, Help: help})
	}
	s.metrics.closed = counter("swept_total", "Attempts closed by sweeps because they were not submitted in time.")
	s.metrics.failures = counter("sweep_failures_total", "Sweeps that failed; the next one follows after a minute.")
	s.metrics.skipped = counter("sweep_skipped_total",
		"Attempts that a sweep could not close and skipped, counted again at each sweep. The log has their ids.")
	s.metrics.overdue = factory.NewGauge(prometheus.GaugeOpts{
		Name: "examprep_attempts_oldest_overdue_seconds",
		Help: "Age of the oldest attempt that is overdue for closing; 0 if none.",
	})
	return s
}

// Run sweeps every minute until ctx ends, and returns nil then. It continues while PostgreSQL is unreachable.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		s.observeBacklog(ctx)
		closed, err := s.Sweep(ctx)
		s.metrics.closed.Add(float64(closed))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.metrics.failures.Inc()
			s.logger.WarnContext(ctx, "overdue attempts were not closed; trying again", "error", err)
		case closed > 0:
			s.logger.InfoContext(ctx, "closed overdue attempts", "count", closed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Sweep closes overdue attempts as expired and not scored. It returns their number, also if it fails before the end. It skips
// an attempt that PostgreSQL refuses to close, logs its id and counts it; the next sweep tries it again. Several workers can
// sweep at once. A missed sweep loses nothing: overdue attempts read as expired, and a submission closes its own.
func (s *Sweeper) Sweep(ctx context.Context) (closed int, err error) {
	skipped := []uuid.UUID{}
	for {
		finding, cancel := context.WithTimeout(ctx, sweepTimeout)
		ids, err := s.queries.OverdueAttempts(finding, attemptsdb.OverdueAttemptsParams{
			LateSeconds: lateWindow.Seconds(), Skipped: skipped, Batch: sweepBatch,
		})
		cancel()
		if err != nil {
			return closed, fmt.Errorf("find overdue attempts: %w", err)
		}
		if len(ids) == 0 {
			return closed, nil
		}
		n, refused, err := s.expire(ctx, ids)
		closed, skipped = closed+n, append(skipped, refused...)
		if err != nil {
			return closed, fmt.Errorf("close overdue attempts: %w", err)
		}
		if len(ids) < sweepBatch {
			return closed, nil
		}
	}
}

// expire closes attempts in one statement. If PostgreSQL refuses it because of a row, that costs only its own attempt. It returns the
// number closed and the ids that were refused.
func (s *Sweeper) expire(ctx context.Context, ids []uuid.UUID) (closed int, refused []uuid.UUID, err error) {
	err = postgres.Divide(ids, func(ids []uuid.UUID) error {
		statement, cancel := context.WithTimeout(ctx, sweepTimeout)
		defer cancel()
		n, err := s.queries.ExpireAttempts(statement, ids)
		closed += int(n)
		return err //nolint:wrapcheck // the caller does
	}, func(id uuid.UUID, err error) {
		refused = append(refused, id)
		s.metrics.skipped.Inc()
		s.logger.ErrorContext(ctx, "an overdue attempt cannot be closed; skipping it", "attempt_id", id.String(), "error", err)
	})
	return closed, refused, err //nolint:wrapcheck // the caller does
}

// observeBacklog measures how late the sweep is, before it is made. If that fails, the sweep reports the error.
func (s *Sweeper) observeBacklog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if seconds, err := s.queries.OldestOverdue(ctx, lateWindow.Seconds()); err == nil {
		s.metrics.overdue.Set(seconds)
	}
}
