package webhooks

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// relayBatch is how many due rows one statement claims.
	relayBatch = 500
	// relayHold is how long a row is left to the stream before the sweep puts it there again.
	relayHold = time.Minute
)

// relay moves due deliveries to the stream: when a notification tells of them, and by a sweep for whatever no
// notification told of: retries that have come due, what Redis lost, what a dead worker held.
func (w *Worker) relay(ctx context.Context) {
	wake := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.listen(ctx, wake)
	}()
	defer func() { <-done }()
	sweep := time.NewTicker(w.cfg.SweepInterval)
	defer sweep.Stop()
	for {
		w.relayDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-sweep.C:
		}
	}
}

// relayDue empties what is due, a batch at a time.
func (w *Worker) relayDue(ctx context.Context) {
	for ctx.Err() == nil {
		rows, err := w.queries.ClaimDue(ctx, webhooksdb.ClaimDueParams{HoldSeconds: relayHold.Seconds(), Batch: relayBatch})
		if err != nil {
			w.trouble(ctx, "claiming due deliveries", err)
			return
		}
		if len(rows) > 0 && !w.hand(ctx, rows) {
			return
		}
		if len(rows) < relayBatch {
			return
		}
	}
}

// hand puts claimed rows on the stream. If Redis does not take them they are due again in a moment.
func (w *Worker) hand(ctx context.Context, rows []webhooksdb.ClaimDueRow) bool {
	hints := make([]hint, len(rows))
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		hints[i] = hint{delivery: row.ID, endpoint: row.EndpointID}
		ids[i] = row.ID
	}
	err := w.stream.add(ctx, hints)
	if err == nil {
		return true
	}
	w.trouble(ctx, "relaying deliveries to Redis", err)
	restore, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := w.queries.Unclaim(restore, webhooksdb.UnclaimParams{Ids: ids, DelaySeconds: 1}); err != nil {
		w.trouble(ctx, "giving deliveries back", err)
	}
	return false
}

// listen turns notifications into wake-ups, on a connection of its own that it renews when it breaks.
func (w *Worker) listen(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		if err := listenOnce(ctx, w.pool, wake); err != nil {
			w.trouble(ctx, "listening for events", err)
		}
		if !pause(ctx, retryPause) {
			return
		}
	}
}

func listenOnce(ctx context.Context, pool *pgxpool.Pool, wake chan<- struct{}) error {
	borrowed, err := pool.Acquire(ctx)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	conn := borrowed.Hijack()
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+outboxChannel); err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	for {
		select {
		case wake <- struct{}{}: // first for what was written before LISTEN
		default:
		}
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err //nolint:wrapcheck // the caller says what it was doing
		}
	}
}
