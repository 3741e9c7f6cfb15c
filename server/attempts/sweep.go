package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/postgres/attemptsdb"
)

const (
	// sweepBatch is how many attempts one statement closes: few enough that its locks are short.
	sweepBatch = 1000
	// sweepInterval is how often Run looks. Attempts close 24 hours after their deadline, and read as expired before
	// they are swept, so a minute more or less is nobody's loss.
	sweepInterval = time.Minute
	// sweepTimeout bounds one statement: a connection that has gone silent must not end the sweeping.
	sweepTimeout = 10 * time.Second
)

// Sweeper closes attempts that nobody submitted. It needs no namespace secret and no catalogue.
type Sweeper struct {
	queries *attemptsdb.Queries
	now     func() time.Time
	logger  *slog.Logger
	metrics *sweepMetrics
}

// NewSweeper returns a sweeper on pool; registerer takes its metrics, nil: none. It panics when they are registered already.
func NewSweeper(pool *pgxpool.Pool, now func() time.Time, logger *slog.Logger, registerer prometheus.Registerer) *Sweeper {
	return &Sweeper{queries: attemptsdb.New(pool), now: now, logger: logger, metrics: newSweepMetrics(registerer)}
}

// Run sweeps every minute until ctx ends, and returns nil then. While Postgres is away it goes on trying.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		s.measure(ctx)
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

// Sweep closes, as expired and not scored, the attempts whose deadline passed 24 hours ago. It is safe to run from
// several workers at once, and to miss: such attempts read as expired before they are swept, and a submission closes them
// as the sweep would. It returns how many it closed, also when it fails in between.
func (s *Sweeper) Sweep(ctx context.Context) (closed int, err error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	cutoff := now.Add(-lateWindow)
	for {
		n, err := s.closeSome(ctx, now, cutoff)
		if err != nil {
			return closed, fmt.Errorf("close overdue attempts: %w", err)
		}
		closed += int(n)
		if n < sweepBatch {
			return closed, nil
		}
	}
}

// measure tells how far the sweep is behind, before it is made: a row that others' locks keep from it shows at the next.
func (s *Sweeper) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	now := s.now()
	cutoff := now.Add(-lateWindow)
	oldest, err := s.queries.OldestOverdue(ctx, &cutoff)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		s.metrics.overdue.Set(0)
	case err == nil:
		s.metrics.overdue.Set(cutoff.Sub(*oldest).Seconds())
	} // an error is told by the sweep, which meets it as well
}

func (s *Sweeper) closeSome(ctx context.Context, now, cutoff time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return s.queries.CloseOverdue(ctx, attemptsdb.CloseOverdueParams{ClosedAt: &now, Cutoff: &cutoff, Batch: sweepBatch})
}

// sweepMetrics tell whether attempts are closed in time.
type sweepMetrics struct {
	closed   prometheus.Counter
	failures prometheus.Counter
	overdue  prometheus.Gauge
}

func newSweepMetrics(registerer prometheus.Registerer) *sweepMetrics {
	m := &sweepMetrics{
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_attempts_swept_total", Help: "Attempts that were closed because nobody submitted them in time.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_attempts_sweep_failures_total", Help: "Sweeps that failed; each is tried again after a minute.",
		}),
		overdue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_attempts_oldest_overdue_seconds",
			Help: "For how long the attempt that should have been closed first is to be closed, of all attempts, measured every minute.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.closed, m.failures, m.overdue)
	}
	return m
}
