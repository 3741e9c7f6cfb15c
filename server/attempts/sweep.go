package attempts

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

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
}

// NewSweeper returns a sweeper on pool.
func NewSweeper(pool *pgxpool.Pool, now func() time.Time, logger *slog.Logger) *Sweeper {
	return &Sweeper{queries: attemptsdb.New(pool), now: now, logger: logger}
}

// Run sweeps every minute until ctx ends, and returns nil then. While Postgres is away it goes on trying.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		closed, err := s.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
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

func (s *Sweeper) closeSome(ctx context.Context, now, cutoff time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return s.queries.CloseOverdue(ctx, attemptsdb.CloseOverdueParams{ClosedAt: &now, Cutoff: &cutoff, Batch: sweepBatch})
}
