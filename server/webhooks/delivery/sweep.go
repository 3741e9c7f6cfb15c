package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

// sweepRest is how many times its duration a sweep waits for the next one, so that sweeps use at most 5 % of the database's
// time; but no longer than so many intervals.
const sweepRest = 20

// wholeSweep: each such sweep reads all pending rows, the others only those of the endpoints that this worker knows, from their since
// on. While an old snapshot is held, the index keeps the entries of all rows that have ended since, and a whole sweep walks them.
const wholeSweep = 10

// sweeper finds work that no wake-up reported: lost wake-ups, retries, expired leases, and, for the canceller, deliveries of
// endpoints that are disabled or deleted.
type sweeper struct {
	queries  *webhooksdb.Queries
	windows  *windows
	interval time.Duration
	timeout  time.Duration // of the statement that finds the endpoints
	// disabled gets the endpoints whose pending deliveries must be cancelled.
	disabled chan<- []uuid.UUID
	metrics  *metrics
	logger   *slog.Logger
	// turn counts the sweeps.
	turn int
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
	rows, err := s.find(statement)
	if err != nil {
		return fmt.Errorf("find due deliveries: %w", err)
	}
	s.turn++
	var oldest, lag float64
	var disabled []uuid.UUID
	for _, row := range rows {
		if !row.Enabled {
			disabled = append(disabled, row.EndpointID)
			continue
		}
		s.windows.found(row.EndpointID, row.Oldest)
		oldest = max(oldest, row.DueSeconds)
		if !row.Failing {
			lag = max(lag, row.DueSeconds)
		}
	}
	s.metrics.oldestDue.Set(oldest)
	s.metrics.outboxLag.Set(lag)
	if len(disabled) > 0 {
		select {
		case s.disabled <- disabled:
		default: // the canceller has not finished with those of an earlier sweep
		}
	}
	return nil
}

// find returns the endpoints that have work. The first sweep is a whole one.
func (s *sweeper) find(ctx context.Context) ([]webhooksdb.SweepRow, error) {
	if s.turn%wholeSweep == 0 {
		return s.queries.Sweep(ctx) //nolint:wrapcheck // the caller does
	}
	endpoints, sinces := s.windows.known()
	rows, err := s.queries.SweepKnown(ctx, webhooksdb.SweepKnownParams{Endpoints: endpoints, Sinces: sinces})
	found := make([]webhooksdb.SweepRow, len(rows))
	for i, row := range rows {
		found[i] = webhooksdb.SweepRow(row)
	}
	return found, err //nolint:wrapcheck // the caller does
}
