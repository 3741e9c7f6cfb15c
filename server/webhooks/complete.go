package webhooks

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// flushBatch and flushGap shape the statements that write outcomes down: River found four times the throughput in
	// completing in batches, and a few milliseconds are nobody's loss.
	flushBatch = 256
	flushGap   = 3 * time.Millisecond
	// reasonGone and reasonFailing are the disabled_reasons that a worker writes.
	reasonGone    = "the receiver answered 410 Gone"
	reasonFailing = "no delivery succeeded for 5 days"
)

// A result is a try that has ended.
type result struct {
	row webhooksdb.LeaseRow
	outcome
}

// flushResults writes outcomes down, many at a time, until the channel is closed and empty.
func (w *Worker) flushResults() {
	batch := make([]result, 0, flushBatch)
	for first := range w.results {
		batch = append(batch[:0], first)
		gap := time.NewTimer(flushGap)
	gather:
		for len(batch) < flushBatch {
			select {
			case next, open := <-w.results:
				if !open {
					break gather
				}
				batch = append(batch, next)
			case <-gap.C:
				break gather
			}
		}
		gap.Stop()
		w.flush(batch)
	}
}

// flush writes one batch. It tries until the leases are over: after that the rows are somebody else's, and the fence
// would refuse it anyway.
func (w *Worker) flush(batch []result) {
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.LeaseMargin)
	defer cancel()
	for {
		err := w.writeDown(ctx, batch)
		if err == nil {
			break
		}
		w.trouble(ctx, "writing outcomes down", err)
		if !pause(ctx, retryPause) {
			w.cfg.Logger.Error("outcomes were not written down; their deliveries will be tried again", "count", len(batch))
			return
		}
	}
	w.noteHealth(ctx, batch)
}

func (w *Worker) writeDown(ctx context.Context, batch []result) error {
	arg := webhooksdb.CompleteParams{Lease: w.lease}
	for _, r := range batch {
		state, delay := w.next(r)
		arg.Ids = append(arg.Ids, r.row.ID)
		arg.Attempts = append(arg.Attempts, r.row.Attempt)
		arg.States = append(arg.States, state)
		arg.Statuses = append(arg.Statuses, int32(r.status))
		arg.Errors = append(arg.Errors, r.failure)
		arg.Delays = append(arg.Delays, delay.Seconds())
	}
	statement, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	written, err := w.queries.Complete(statement, arg)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	w.metrics.fenced.Add(float64(len(batch) - len(written)))
	return nil
}

// next is a delivery's state after a try, and the wait before the next one.
func (w *Worker) next(r result) (state string, delay time.Duration) {
	if r.delivered() {
		return "delivered", 0
	}
	if r.status == http.StatusGone {
		return "failed", 0
	}
	delay, again := retryDelay(w.cfg.RetryBase, int(r.row.Attempt), r.retryAfter)
	if !again {
		return "failed", 0
	}
	return "pending", delay
}

// noteHealth keeps the endpoints' record: one row an endpoint, and only what is new. A receiver that says it is gone is
// believed at once.
func (w *Worker) noteHealth(ctx context.Context, batch []result) {
	last := make(map[uuid.UUID]outcome, len(batch))
	for _, r := range batch {
		if before, known := last[r.row.EndpointID]; !known || !before.delivered() {
			last[r.row.EndpointID] = r.outcome
		}
		if r.status == http.StatusGone {
			w.disable(ctx, r.row.EndpointID)
		}
	}
	var arg webhooksdb.NoteHealthParams
	for id, came := range last {
		arg.Ids = append(arg.Ids, id)
		arg.Oks = append(arg.Oks, came.delivered())
		arg.Statuses = append(arg.Statuses, int32(came.status))
	}
	if err := w.queries.NoteHealth(ctx, arg); err != nil {
		w.trouble(ctx, "noting the health of endpoints", err)
	}
}

func (w *Worker) disable(ctx context.Context, endpoint uuid.UUID) {
	n, err := w.queries.DisableEndpoint(ctx, webhooksdb.DisableEndpointParams{ID: endpoint, Reason: reasonGone})
	if err == nil && n > 0 {
		w.cfg.Logger.Warn("webhook endpoint disabled", "endpoint", endpoint, "reason", reasonGone)
		_, err = w.queries.CancelPending(ctx, endpoint)
	}
	if err != nil {
		w.trouble(ctx, "disabling an endpoint", err)
	}
}
