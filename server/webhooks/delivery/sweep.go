package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

// sweepRest is how many times its duration a sweep waits for the next one of its kind, so that sweeps of a kind use at most 5 % of the
// database's time; but no longer than so many intervals.
const sweepRest = 20

// sweeper finds work that no wake-up reported: lost wake-ups, retries, expired leases, and, for the canceller, deliveries of
// endpoints that are disabled or deleted. A whole sweep reads the pending rows of all endpoints. While an old snapshot is held, the
// index keeps the entries of all rows that have ended since, and a whole sweep walks them. So it rests by its own duration, and the
// sweeps in between read only the endpoints that this worker knows, from their since on.
type sweeper struct {
	queries  *webhooksdb.Queries
	windows  *windows
	interval time.Duration
	timeout  time.Duration // of the statement that finds the endpoints
	// disabled gets the endpoints whose pending deliveries must be cancelled.
	disabled chan<- []uuid.UUID
	metrics  *metrics
	logger   *slog.Logger
	// wholeAt is when the next whole sweep begins. The first one is whole.
	wholeAt time.Time
}

func (s *sweeper) run(ctx context.Context) {
	retry := backoff{logger: s.logger, doing: "sweeping for due deliveries"}
	for ctx.Err() == nil {
		began, whole := time.Now(), s.isWhole()
		if retry.failed(ctx, s.sweep(ctx)) {
			continue
		}
		rest := s.interval
		if !whole {
			rest = s.rest(time.Since(began))
		}
		pause(ctx, rest)
	}
}

// isWhole reports whether the next sweep reads the pending rows of all endpoints.
func (s *sweeper) isWhole() bool { return !time.Now().Before(s.wholeAt) }

// rest returns how long to wait after a sweep of that duration for the next one of its kind.
func (s *sweeper) rest(took time.Duration) time.Duration {
	return min(max(s.interval, sweepRest*took), sweepRest*s.interval)
}

func (s *sweeper) sweep(ctx context.Context) error {
	statement, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.find(statement)
	if err != nil {
		return fmt.Errorf("find due deliveries: %w", err)
	}
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

// find returns the endpoints that have work.
func (s *sweeper) find(ctx context.Context) ([]webhooksdb.SweepRow, error) {
	if s.isWhole() {
		began := time.Now()
		rows, err := s.queries.Sweep(ctx)
		s.wholeAt = time.Now().Add(s.rest(time.Since(began)))
		return rows, err //nolint:wrapcheck // the caller does
	}
	endpoints, sinces := s.windows.known()
	rows, err := s.queries.SweepKnown(ctx, webhooksdb.SweepKnownParams{Endpoints: endpoints, Sinces: sinces})
	found := make([]webhooksdb.SweepRow, len(rows))
	for i, row := range rows {
		found[i] = webhooksdb.SweepRow(row)
	}
	return found, err //nolint:wrapcheck // the caller does
}
