package webhooks

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// readBatch is how many hints are taken from the stream at once, readWait how long an idle read waits for them.
	readBatch = 128
	readWait  = time.Second
	// maxQueued bounds the hints that wait in this worker's lanes; at that it leaves the stream to others.
	maxQueued = 4096
	// leaseBatch is how many deliveries one statement leases.
	leaseBatch = 64
	// maxAttempts is the first try and its retries.
	maxAttempts = 1 + maxRetries
)

// consume sorts hints from the stream into lanes.
func (w *Worker) consume(ctx context.Context) {
	for ctx.Err() == nil {
		if w.lanes.backlog() >= maxQueued {
			pause(ctx, minPark)
			continue
		}
		hints, err := w.stream.read(ctx, readBatch, readWait)
		if err != nil {
			w.trouble(ctx, "reading the stream", err)
			pause(ctx, retryPause)
			continue
		}
		w.sort(ctx, hints)
	}
}

// reclaim takes over what silent workers left in the stream.
func (w *Worker) reclaim(ctx context.Context) {
	for pause(ctx, claimIdle/2) {
		hints, err := w.stream.claim(ctx, readBatch)
		if err != nil {
			w.trouble(ctx, "claiming from the stream", err)
		}
		w.sort(ctx, hints)
	}
}

// sort queues hints. What finds its lane full is put off in Postgres: there it costs this worker nothing.
func (w *Worker) sort(ctx context.Context, hints []hint) {
	var parked []uuid.UUID
	var dropped []hint
	var longest time.Duration
	for _, h := range hints {
		if h.delivery == uuid.Nil {
			dropped = append(dropped, h) // not a hint of ours
			continue
		}
		if park, queued := w.lanes.push(h); !queued {
			parked, dropped, longest = append(parked, h.delivery), append(dropped, h), max(longest, park)
		}
	}
	if len(dropped) == 0 {
		return
	}
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	w.putOff(store, parked, longest)
	if err := w.stream.done(store, dropped); err != nil {
		w.trouble(ctx, "acknowledging hints", err)
	}
}

func (w *Worker) putOff(ctx context.Context, ids []uuid.UUID, delay time.Duration) {
	if len(ids) == 0 {
		return
	}
	w.metrics.parked.Add(float64(len(ids)))
	if err := w.queries.Unclaim(ctx, webhooksdb.UnclaimParams{Ids: ids, DelaySeconds: delay.Seconds()}); err != nil {
		w.trouble(ctx, "putting deliveries off", err)
	}
}

// dispatch begins tries for what the lanes let pass, as long as there are places.
func (w *Worker) dispatch(ctx context.Context) {
	for {
		places := w.takePlaces(ctx)
		if places == 0 {
			return
		}
		hints := w.lanes.take(places)
		w.givePlaces(places - len(hints))
		if len(hints) > 0 {
			w.begin(ctx, hints)
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.lanes.ready:
		}
	}
}

// giveBack returns what still waits in the lanes when the worker stops, for other workers to take at once.
func (w *Worker) giveBack(ctx context.Context) {
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	rest := w.lanes.drain()
	ids := make([]uuid.UUID, len(rest))
	for i, h := range rest {
		ids[i] = h.delivery
	}
	w.putOff(store, ids, 0)
	if err := w.stream.done(store, rest); err != nil {
		w.trouble(ctx, "acknowledging hints", err)
	}
}

// takePlaces waits for one place and takes as many as are free, up to a batch; 0 when ctx has ended.
func (w *Worker) takePlaces(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case w.places <- struct{}{}:
	}
	for taken := 1; ; taken++ {
		if taken == leaseBatch {
			return taken
		}
		select {
		case w.places <- struct{}{}:
		default:
			return taken
		}
	}
}

func (w *Worker) givePlaces(n int) {
	for range n {
		<-w.places
	}
}

// begin leases what the hints name and starts a try for each; it holds a place per hint. From the lease on a row is
// safe: whatever happens to this worker, the row is due again when the lease is over. So the hints go at once.
func (w *Worker) begin(ctx context.Context, hints []hint) {
	// What was taken from the stream is finished even while the worker stops.
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	ids := make([]uuid.UUID, len(hints))
	for i, h := range hints {
		ids[i] = h.delivery
	}
	leased, err := w.queries.Lease(store, webhooksdb.LeaseParams{
		Ids: ids, Lease: w.lease, TermSeconds: (w.cfg.Timeout + w.cfg.LeaseMargin).Seconds(), MaxAttempts: maxAttempts,
	})
	if err != nil {
		w.trouble(ctx, "leasing deliveries", err)
		for _, h := range hints {
			w.lanes.abandon(h.endpoint)
		}
		w.givePlaces(len(hints))
		pause(ctx, retryPause)
		return // the hints stay pending in the stream, and the rows come up again by the sweep
	}
	refused := make(map[uuid.UUID]struct{}, len(hints))
	spare := make([]uuid.UUID, 0, len(hints)) // lanes of hints without a try: a delivery named twice has one at most
	for _, h := range hints {
		refused[h.delivery] = struct{}{}
		spare = append(spare, h.endpoint)
	}
	for _, row := range leased {
		delete(refused, row.ID)
		at := slices.Index(spare, row.EndpointID)
		spare = slices.Delete(spare, at, at+1)
		w.tries.Go(func() { w.try(row) }) //nolint:contextcheck // a try outlives ctx: it has its own time-out
	}
	for _, endpoint := range spare {
		w.lanes.abandon(endpoint)
	}
	w.givePlaces(len(spare))
	w.tidy(store, hints, refused)
}

// tidy removes the hints, and ends what was refused a lease for good.
func (w *Worker) tidy(ctx context.Context, hints []hint, refused map[uuid.UUID]struct{}) {
	if len(refused) > 0 {
		ids := make([]uuid.UUID, 0, len(refused))
		for id := range refused {
			ids = append(ids, id)
		}
		if _, err := w.queries.CancelOrphans(ctx, ids); err != nil {
			w.trouble(ctx, "cancelling deliveries of endpoints that are gone", err)
		}
		if _, err := w.queries.FailExhausted(ctx, webhooksdb.FailExhaustedParams{Ids: ids, MaxAttempts: maxAttempts}); err != nil {
			w.trouble(ctx, "giving up lost deliveries", err)
		}
	}
	if err := w.stream.done(ctx, hints); err != nil {
		w.trouble(ctx, "acknowledging hints", err)
	}
}

// try makes one try and hands its outcome to the flusher. It is not cut short when the worker stops: its time-out is.
func (w *Worker) try(row webhooksdb.LeaseRow) {
	defer w.givePlaces(1)
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.Timeout)
	defer cancel()
	w.metrics.inFlight.Inc()
	defer w.metrics.inFlight.Dec()
	began := w.cfg.Now()
	came := outcome{failure: "secret"}
	secrets, err := w.secrets.get(ctx, row.EndpointID, row.UpdatedAt)
	if err == nil {
		came = w.sender.send(ctx, post{url: row.Url, eventID: row.EventID, body: row.Body, secrets: secrets})
	} else {
		w.cfg.Logger.Error("signing secret cannot be read", "endpoint", row.EndpointID, "error", err)
	}
	ended := w.cfg.Now()
	w.lanes.leave(row.EndpointID, came.delivered(), ended.Sub(began))
	w.metrics.tried(came, ended.Sub(began), ended.Sub(row.CreatedAt))
	w.cfg.Logger.Debug("webhook try", "delivery", row.ID, "endpoint", row.EndpointID, "event", row.EventID,
		"attempt", row.Attempt, "status", came.status, "failure", came.failure, "took", ended.Sub(began))
	w.results <- result{row: row, outcome: came}
}
