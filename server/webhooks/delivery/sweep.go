package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// sweepRest is how many times its duration a sweep waits for the next one, so that sweeps use at most 5 % of the database's
	// time; but no longer than so many intervals.
	sweepRest = 20
	// cancelBatch is how many deliveries one statement cancels.
	cancelBatch = 2000
)

// sweeper finds work that no wake-up reported: lost wake-ups, retries, expired leases, and deliveries of endpoints that are
// disabled or deleted.
type sweeper struct {
	queries  *webhooksdb.Queries
	windows  *windows
	interval time.Duration
	timeout  time.Duration // of the statement that finds the endpoints
	// cancelTimeout limits each statement that cancels deliveries.
	cancelTimeout time.Duration
	metrics       *metrics
	logger        *slog.Logger
}

func (s *sweeper) run(ctx context.Context) {
	retry := backoff{logger: s.logger, doing: "sweeping for due deliveries"}
	for ctx.Err() == nil {
		began := time.Now()
		if !retry.failed(ctx, s.sweep(ctx)) {
			pause(ctx, min(max(s.interval, sweepRest*time.Since(began)), sweepRest*s.interval))
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	statement, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.queries.Sweep(statement)
	if err != nil {
		return fmt.Errorf("find due deliveries: %w", err)
	}
	var oldest, lag float64
	for _, row := range rows {
		if !row.Enabled {
			if err := s.cancelPending(ctx, row.EndpointID); err != nil {
				return err
			}
			continue
		}
		s.windows.markDue(row.EndpointID)
		oldest = max(oldest, row.DueSeconds)
		if !row.Failing {
			lag = max(lag, row.DueSeconds)
		}
	}
	s.metrics.oldestDue.Set(oldest)
	s.metrics.outboxLag.Set(lag)
	return nil
}

// cancelPending cancels the deliveries of an endpoint that is disabled or deleted.
func (s *sweeper) cancelPending(ctx context.Context, endpoint uuid.UUID) error {
	for {
		statement, cancel := context.WithTimeout(ctx, s.cancelTimeout)
		n, err := s.queries.CancelPending(statement, webhooksdb.CancelPendingParams{EndpointID: endpoint, Chunk: cancelBatch})
		cancel()
		if err != nil {
			return fmt.Errorf("cancel the deliveries of a disabled endpoint: %w", err)
		}
		if n < cancelBatch {
			return nil
		}
	}
}
