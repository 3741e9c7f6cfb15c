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
	// completing in batches, and that an outcome is on disk ten milliseconds later is nobody's loss: its event has arrived.
	flushBatch = 512
	flushGap   = 10 * time.Millisecond
	// reasonGone and reasonFailing are the disabled_reasons that a worker writes.
	reasonGone    = "the receiver answered 410 Gone"
	reasonFailing = "no delivery succeeded for 5 days"
)

// A result is a try that has ended.
type result struct {
	row   webhooksdb.LeaseRow
	began time.Time
	took  time.Duration
	outcome
}

// flushResults writes outcomes down, many at a time, until the channel is closed and empty.
func (w *Worker) flushResults(ctx context.Context) {
	batch := make([]result, 0, flushBatch)
	var stopping time.Time
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
		w.flush(ctx, batch, &stopping)
	}
}

// flush writes one batch, however long Postgres is away: an outcome stays good until another worker takes the lease
// over, and then the fence refuses it. A worker that stops tries, for all that it has left, as long as a lease outlasts
// its try; stopping is since when, once it has failed.
func (w *Worker) flush(ctx context.Context, batch []result, stopping *time.Time) {
	store := context.WithoutCancel(ctx)
	for {
		if !w.trouble(ctx, "writing outcomes down", w.writeDown(store, batch)) {
			w.noteHealth(store, batch)
			return
		}
		if ctx.Err() != nil && stopping.IsZero() {
			*stopping = w.cfg.Now()
		}
		if !stopping.IsZero() && w.cfg.Now().Sub(*stopping) > w.cfg.LeaseMargin {
			w.cfg.Logger.Error("outcomes were not written down; their deliveries will be tried again", "count", len(batch))
			return
		}
		pause(store, retryPause)
	}
}

func (w *Worker) writeDown(ctx context.Context, batch []result) error {
	arg := webhooksdb.CompleteParams{
		LeaseID: w.lease, MaxAttempts: maxAttempts,
		LeastDelay: (1 - retryJitter) * w.cfg.RetryBase.Seconds(), Factor: retryFactor,
	}
	for _, r := range batch {
		state, delay := w.next(r)
		arg.Ids = append(arg.Ids, r.row.ID)
		arg.Attempts = append(arg.Attempts, r.row.Attempt)
		arg.States = append(arg.States, state)
		arg.Statuses = append(arg.Statuses, int32(r.status))
		arg.Failures = append(arg.Failures, r.failure)
		arg.Delays = append(arg.Delays, delay.Seconds())
		arg.Began = append(arg.Began, r.began)
		arg.Millis = append(arg.Millis, millis(r.took))
		arg.Responses = append(arg.Responses, r.answer)
	}
	statement, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	written, err := w.queries.Complete(statement, arg)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	if len(written) == len(batch) {
		return nil
	}
	if err := w.queries.TellLate(statement, webhooksdb.TellLateParams{
		Ids: arg.Ids, Attempts: arg.Attempts, Statuses: arg.Statuses, Failures: arg.Failures, Began: arg.Began,
		Millis: arg.Millis, Responses: arg.Responses, MaxAttempts: maxAttempts,
	}); err != nil {
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
	// Of the tries begun, those count whose outcome is known.
	delay, again := retryDelay(w.cfg.RetryBase, int(r.row.Attempt-r.row.LostAttempts), r.retryAfter)
	if !again {
		return "failed", 0
	}
	return "pending", delay
}

// millis is a try's duration as it is stored: a clock that was set back meanwhile makes it no less than nothing.
func millis(took time.Duration) int32 {
	return int32(min(max(took, 0), time.Hour) / time.Millisecond)
}

// noteHealth keeps the endpoints' record: one row an endpoint, and only what is new. A receiver that says it is gone is
// believed at once; one that has failed for too long is disabled when it fails again.
func (w *Worker) noteHealth(ctx context.Context, batch []result) {
	last := make(map[uuid.UUID]outcome, len(batch))
	for _, r := range batch {
		if before, known := last[r.row.EndpointID]; !known || !before.delivered() {
			last[r.row.EndpointID] = r.outcome
		}
		if r.status == http.StatusGone {
			if seen := w.gone[r.row.EndpointID]; seen.Before(r.row.UpdatedAt) {
				w.gone[r.row.EndpointID] = r.row.UpdatedAt
			}
		}
	}
	for endpoint, seen := range w.gone {
		if w.disable(ctx, endpoint, seen) {
			delete(w.gone, endpoint)
		}
	}
	w.noted.settle(last)
	var arg webhooksdb.NoteHealthParams
	var failing []uuid.UUID
	for id, came := range last {
		if !w.noted.news(id, came, w.cfg.Now()) {
			continue
		}
		arg.Ids = append(arg.Ids, id)
		arg.Oks = append(arg.Oks, came.delivered())
		arg.Statuses = append(arg.Statuses, int32(came.status))
		if !came.delivered() {
			failing = append(failing, id)
		}
	}
	if len(arg.Ids) == 0 {
		return
	}
	statement, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	left, err := w.queries.NoteHealth(statement, arg)
	if err != nil {
		left = arg.Ids
	}
	w.noted.owe(left)
	if err == nil && len(failing) > 0 {
		err = w.disableFailing(statement, failing)
	}
	w.trouble(ctx, "noting the health of endpoints", err)
}

// disableFailing disables those of the endpoints that have failed for too long.
func (w *Worker) disableFailing(ctx context.Context, ids []uuid.UUID) error {
	disabled, err := w.queries.DisableFailing(ctx, webhooksdb.DisableFailingParams{
		Ids: ids, Reason: reasonFailing, Seconds: w.cfg.DisableAfter.Seconds(),
	})
	if err != nil {
		return err //nolint:wrapcheck // the caller says what it was doing
	}
	for _, endpoint := range disabled {
		w.metrics.disabled.WithLabelValues(disabledFailing).Inc()
		w.cfg.Logger.Warn("webhook endpoint disabled", "endpoint", endpoint, "reason", reasonFailing)
		w.abandonBacklog(endpoint)
	}
	return nil
}

const (
	// noteInterval is how often an outcome like the one before is noted again.
	noteInterval = 15 * time.Second
	// maxNotes bounds what is remembered; forgetting costs one statement.
	maxNotes = 10_000
)

// notes remember what was last written of each endpoint's health, so that the usual outcome costs no statement. Only the
// flusher uses them.
type notes struct {
	last map[uuid.UUID]note
	// owed are successes that could not be written: failures to come must not make up for them.
	owed map[uuid.UUID]outcome
}

func newNotes() notes { return notes{make(map[uuid.UUID]note), make(map[uuid.UUID]outcome)} }

type note struct {
	outcome
	at time.Time
}

// news reports whether an outcome is to be written, and remembers it.
func (n notes) news(endpoint uuid.UUID, came outcome, now time.Time) bool {
	before, known := n.last[endpoint]
	if known && before.delivered() == came.delivered() && before.status == came.status && now.Sub(before.at) < noteInterval {
		return false
	}
	if len(n.last) >= maxNotes {
		clear(n.last)
	}
	n.last[endpoint] = note{came, now}
	return true
}

// owe takes back what was remembered of endpoints of which it could not be written.
func (n notes) owe(endpoints []uuid.UUID) {
	for _, id := range endpoints {
		if before, known := n.last[id]; known && before.delivered() && len(n.owed) < maxNotes {
			n.owed[id] = before.outcome
		}
		delete(n.last, id)
	}
}

// settle adds the successes that are owed to the outcomes that are to be noted; a success goes before failures.
func (n notes) settle(last map[uuid.UUID]outcome) {
	for id, came := range n.owed {
		if later, known := last[id]; !known || !later.delivered() {
			last[id] = came
		}
	}
	clear(n.owed)
}

// disable turns an endpoint off that said it is gone, if it is still as it was seen when the try was leased, and reports
// whether the database has answered.
func (w *Worker) disable(ctx context.Context, endpoint uuid.UUID, seen time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	n, err := w.queries.DisableEndpoint(ctx, webhooksdb.DisableEndpointParams{ID: endpoint, Reason: reasonGone, Seen: seen})
	if w.trouble(ctx, "disabling an endpoint", err) {
		return false
	}
	if n > 0 {
		w.metrics.disabled.WithLabelValues(disabledGone).Inc()
		w.cfg.Logger.Warn("webhook endpoint disabled", "endpoint", endpoint, "reason", reasonGone)
		w.abandonBacklog(endpoint)
	}
	return true
}

// maxAbandoned is how many endpoints may wait for their backlog to be cancelled.
const maxAbandoned = 256

// abandonBacklog asks for what is pending to be cancelled, without waiting for it: outcomes of others come first. When
// too many wait already it does nothing; then each delivery is cancelled when it is refused a lease.
func (w *Worker) abandonBacklog(endpoint uuid.UUID) {
	select {
	case w.abandoned <- endpoint:
	default:
	}
}

// cancelBacklogs cancels what is pending for endpoints that this worker disabled, a chunk at a time.
func (w *Worker) cancelBacklogs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case endpoint := <-w.abandoned:
			w.trouble(ctx, "cancelling the backlog of an endpoint", w.cancelBacklog(ctx, endpoint))
		}
	}
}

func (w *Worker) cancelBacklog(ctx context.Context, endpoint uuid.UUID) error {
	for ctx.Err() == nil {
		statement, cancel := context.WithTimeout(ctx, storeTimeout)
		n, err := w.queries.CancelPending(statement, webhooksdb.CancelPendingParams{EndpointID: endpoint, Chunk: cancelChunk})
		cancel()
		if err != nil || n < cancelChunk {
			return err //nolint:wrapcheck // the caller says what it was doing
		}
	}
	return nil
}
