package webhooks

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// relayBatch is how many due rows one statement claims.
	relayBatch = 500
	// relaySlack is what a row is left to the stream beyond the length of a lease, before the sweep puts it there again:
	// leased within the slack, its place in the index stays good until the lease is over.
	relaySlack = 5 * time.Second
	// streamDepth is how many hints may wait for a worker to take them before relays wait. What waits, waits in Postgres,
	// where it costs nothing: a million due rows are claimed once, as they are needed.
	streamDepth = 8192
	// depthPause is the wait while the stream is full.
	depthPause = 20 * time.Millisecond
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
	for ctx.Err() == nil {
		if full := w.relayDue(ctx); full {
			pause(ctx, depthPause)
			continue
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-sweep.C:
		}
	}
}

// relayDue empties what is due, a batch at a time, and reports whether it stopped only because the stream is full.
func (w *Worker) relayDue(ctx context.Context) (full bool) {
	for ctx.Err() == nil {
		// Redis is asked first: while it is away no row is touched.
		depth, err := w.stream.depth(ctx)
		if w.trouble(ctx, "asking Redis for the depth of the stream", err) {
			return false
		}
		batch := min(relayBatch, streamDepth-depth)
		if batch <= 0 {
			return true
		}
		rows, err := w.claim(ctx, batch)
		if w.trouble(ctx, "claiming due deliveries", err) {
			return false
		}
		if len(rows) > 0 && !w.hand(ctx, rows) {
			return false
		}
		if len(rows) < batch {
			return false
		}
	}
	return false
}

// claim takes due rows. It is not cut short when the worker stops, or rows that it took would be relayed by nobody until
// their hold is over; a connection that has gone silent costs it its time-out and no more.
func (w *Worker) claim(ctx context.Context, batch int) ([]webhooksdb.ClaimDueRow, error) {
	statement, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return w.queries.ClaimDue(statement, webhooksdb.ClaimDueParams{
		HoldSeconds: w.holdTime().Seconds(), Batch: int32(batch),
	})
}

// hand puts claimed rows on the stream. If Redis does not take them they are due again in a moment.
func (w *Worker) hand(ctx context.Context, rows []webhooksdb.ClaimDueRow) bool {
	hints := make([]hint, len(rows))
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		hints[i] = hint{delivery: row.ID, endpoint: row.EndpointID}
		ids[i] = row.ID
	}
	// Finished even while the worker stops: what was claimed is for others to deliver.
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if !w.trouble(ctx, "relaying deliveries to Redis", w.stream.add(store, hints)) {
		return true
	}
	restore, done := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer done()
	w.trouble(ctx, "giving deliveries back", w.queries.Unclaim(restore, webhooksdb.UnclaimParams{
		Ids: ids, Delays: slices.Repeat([]float64{retryPause.Seconds()}, len(ids)),
	}))
	return false
}

// listen turns notifications into wake-ups, on a connection of its own that it renews when it breaks.
func (w *Worker) listen(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		w.trouble(ctx, "listening for events", w.listenOnce(ctx, wake))
		if !pause(ctx, retryPause) {
			return
		}
	}
}

func (w *Worker) listenOnce(ctx context.Context, wake chan<- struct{}) error {
	opening, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	borrowed, err := w.pool.Acquire(opening)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	conn := borrowed.Hijack()
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(opening, "LISTEN "+outboxChannel); err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	w.trouble(ctx, "listening for events", nil) // it works, though it never returns saying so
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
