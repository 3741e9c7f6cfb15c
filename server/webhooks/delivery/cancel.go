package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/webhooksdb"
)

// cancelChunk is how many deliveries of an endpoint are cancelled after one sweep.
const cancelChunk = 2000

// canceller cancels pending deliveries of endpoints that are disabled or deleted: a chunk of each endpoint after each sweep. Sweeps do
// not wait for it. A delivery that cannot be cancelled is left out for a while, and costs no other.
type canceller struct {
	queries *webhooksdb.Queries
	// endpoints are those that a sweep found.
	endpoints <-chan []uuid.UUID
	skipped   *skipList
	// since is where the next chunk of an endpoint begins, so that it does not walk the entries of those that were cancelled.
	since   map[uuid.UUID]time.Time
	metrics *metrics
	logger  *slog.Logger
	now     func() time.Time
	timeout time.Duration // of a statement
}

func (c *canceller) run(ctx context.Context) {
	retry := backoff{logger: c.logger, doing: "cancelling deliveries of disabled endpoints"}
	for {
		select {
		case <-ctx.Done():
			return
		case endpoints := <-c.endpoints:
			retry.failed(ctx, c.cancelChunks(ctx, endpoints))
		}
	}
}

// cancelChunks cancels a chunk of each endpoint's deliveries. It returns the error of an outage. Another error concerns one endpoint:
// it is logged, and the next sweep finds the endpoint again.
func (c *canceller) cancelChunks(ctx context.Context, endpoints []uuid.UUID) error {
	earlier := c.since
	c.since = make(map[uuid.UUID]time.Time)
	for _, endpoint := range endpoints {
		since, err := c.cancelChunk(ctx, endpoint, earlier[endpoint])
		switch {
		case err == nil && !since.IsZero():
			c.since[endpoint] = since
		case err == nil:
		case postgres.Unavailable(err) && !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			c.logger.WarnContext(ctx, "deliveries of a disabled endpoint not cancelled", "endpoint", endpoint, "error", err)
		}
	}
	return nil
}

// cancelChunk cancels up to cancelChunk deliveries of an endpoint from a time on. It returns where the next chunk begins: the zero time
// after the last one.
func (c *canceller) cancelChunk(ctx context.Context, endpoint uuid.UUID, since time.Time) (next time.Time, err error) {
	statement, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	rows, err := c.queries.CancellableDeliveries(statement, webhooksdb.CancellableDeliveriesParams{
		EndpointID: endpoint, Since: since, Skip: c.skipped.ids(c.now()), Chunk: cancelChunk,
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("find the deliveries of a disabled endpoint: %w", err)
	}
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	if len(rows) == cancelChunk {
		next = rows[len(rows)-1].NextAttemptAt
	}
	return next, c.cancel(ctx, endpoint, ids)
}

// cancel cancels deliveries. If PostgreSQL refuses, it divides them until one is left that cannot be cancelled, and leaves that one out
// from then on. If PostgreSQL needs too long, it cancels fewer.
func (c *canceller) cancel(ctx context.Context, endpoint uuid.UUID, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	statement, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, err := c.queries.CancelDeliveries(statement, webhooksdb.CancelDeliveriesParams{EndpointID: endpoint, Ids: ids})
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && len(ids) > 1 && errors.Is(err, context.DeadlineExceeded):
		return c.cancel(ctx, endpoint, ids[:len(ids)/2])
	case postgres.Unavailable(err) && !postgres.Divides(err):
		return fmt.Errorf("cancel %d deliveries of a disabled endpoint: %w", len(ids), err)
	case len(ids) > 1:
		half := len(ids) / 2
		if err := c.cancel(ctx, endpoint, ids[:half]); err != nil {
			return err
		}
		return c.cancel(ctx, endpoint, ids[half:])
	default:
		c.skipped.add(ids[0], c.now())
		c.metrics.dropped.Inc()
		c.logger.ErrorContext(ctx, "delivery cannot be cancelled", "delivery", ids[0], "endpoint", endpoint, "error", err)
		return nil
	}
}
