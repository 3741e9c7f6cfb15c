package webhooks

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// readBatch is how many hints are taken from the stream at once, readWait how long an idle read waits for them.
	readBatch = 512
	readWait  = time.Second
	// maxQueued bounds the hints that wait in this worker's lanes; at that it leaves the stream to others.
	maxQueued = 65_536
	// fullPause is the wait of a worker that has no room for hints.
	fullPause = 50 * time.Millisecond
	// leaseBatch is how many deliveries one statement leases.
	leaseBatch = 128
	// maxLeases is how many of these statements may be under way at once, leaseBesides how many deliveries one is for at
	// least while another is.
	maxLeases    = 2
	leaseBesides = leaseBatch / 2
	// leasePatience is how long a lease takes that waits for more than a disk: then another of any size may go beside it.
	leasePatience = 50 * time.Millisecond
	// promptRefusals is how often a hint is taken back at once whose delivery is due but locked, some tens of milliseconds'
	// worth; from then on it waits for the next look (recallInterval), and maxRefused is how often it is taken back in all:
	// for about as long as it takes the sweep to find it.
	promptRefusals = 8
	maxRefused     = promptRefusals + int(30*time.Second/recallInterval)
	// unreadablePause is the wait before a delivery whose secret could not be read is looked at again.
	unreadablePause = 30 * time.Second
	// maxAttempts is the first try and its retries.
	maxAttempts = 1 + maxRetries
	// maxLost is how many tries of a delivery may be lost with their workers. They are not held against it; at so many it
	// may be what ends the workers.
	maxLost = 50
)

// consume sorts hints from the stream into lanes.
func (w *Worker) consume(ctx context.Context) {
	for ctx.Err() == nil {
		if w.lanes.backlog() >= maxQueued {
			pause(ctx, fullPause)
			continue
		}
		hints, err := w.stream.read(ctx, readBatch, readWait)
		if w.trouble(ctx, "reading the stream", err) {
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
		w.trouble(ctx, "claiming from the stream", err)
		w.sort(ctx, hints)
	}
}

// sort queues hints. What finds its lane full is put off in Postgres: there it costs this worker nothing.
func (w *Worker) sort(ctx context.Context, hints []hint) {
	var parked, behind []uuid.UUID
	var delays []float64
	var dropped []hint
	for _, h := range hints {
		if h.delivery == uuid.Nil {
			dropped = append(dropped, h) // not a hint of ours
			continue
		}
		if park, queued := w.lanes.push(h); !queued {
			parked, behind, delays = append(parked, h.delivery), append(behind, h.endpoint), append(delays, park.Seconds())
			dropped = append(dropped, h)
		}
	}
	if len(dropped) == 0 {
		return
	}
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	w.metrics.parked.Add(float64(len(parked)))
	w.putOff(store, webhooksdb.UnclaimParams{Ids: parked, Delays: delays, Parked: true})
	w.lanes.setBehind(behind) // not before: a recall that found nothing yet would forget them again
	w.trouble(ctx, "acknowledging hints", w.stream.done(store, dropped))
}

func (w *Worker) putOff(ctx context.Context, rows webhooksdb.UnclaimParams) {
	if len(rows.Ids) == 0 {
		return
	}
	w.trouble(ctx, "putting deliveries off", w.queries.Unclaim(ctx, rows))
}

// dispatch begins tries for what the lanes let pass. A lease is good once it is committed, and at a disk's pace: while
// that of one batch is under way, the next is gathered, and leased beside it as soon as it is worth a statement. So
// receivers need not wait for the disk, and where little is to be done each statement still is for all that there is. A
// lease that waits for somebody's lock holds up no other.
func (w *Worker) dispatch(ctx context.Context) {
	var leases sync.WaitGroup
	defer leases.Wait()
	ended := make(chan struct{}, maxLeases)
	patience := time.NewTimer(leasePatience)
	defer patience.Stop()
	var batch []hint
	for underWay, slow := 0, false; ctx.Err() == nil; {
		batch = append(batch, w.lanes.take(leaseBatch-len(batch))...)
		worthIt := len(batch) >= leaseBesides || len(batch) > 0 && (underWay == 0 || slow)
		if worthIt && underWay < maxLeases {
			hints := batch
			batch, underWay, slow = nil, underWay+1, false
			patience.Reset(leasePatience)
			leases.Go(func() {
				w.begin(ctx, hints)
				ended <- struct{}{}
			})
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.lanes.ready:
		case <-ended:
			underWay--
		case <-patience.C:
			slow = true
		}
	}
	w.lanes.requeue(batch) // giveBack finds it
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
	w.putOff(store, webhooksdb.UnclaimParams{Ids: ids, Delays: make([]float64, len(ids))})
	w.trouble(ctx, "acknowledging hints", w.stream.done(store, rest))
	if len(rest) > 0 {
		_, _ = w.pool.Exec(store, "NOTIFY "+outboxChannel) // the others need not wait for their sweep
	}
}

// begin leases what the hints name and starts a try for each. From the lease on a row is safe: whatever happens to this
// worker, the row is due again when the lease is over. So the hints go at once.
func (w *Worker) begin(ctx context.Context, hints []hint) {
	// What was taken from the stream is finished even while the worker stops.
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	ids := make([]uuid.UUID, len(hints))
	for i, h := range hints {
		ids[i] = h.delivery
	}
	rows, err := w.queries.Lease(store, webhooksdb.LeaseParams{
		Ids: ids, LeaseID: w.lease, TermSeconds: w.term().Seconds(), MaxAttempts: maxAttempts, MaxLost: maxLost,
	})
	if w.trouble(ctx, "leasing deliveries", err) {
		w.lanes.requeue(hints)
		pause(ctx, retryPause)
		return
	}
	origins := w.originsOf(store, rows)
	refused := make(map[uuid.UUID]uuid.UUID, len(hints)) // delivery to lane
	for _, h := range hints {
		if _, twice := refused[h.delivery]; twice {
			w.lanes.abandon(h.endpoint) // named twice, tried once at most
		}
		refused[h.delivery] = h.endpoint
	}
	for _, row := range rows {
		if row.TakenOver {
			w.metrics.lost.Inc()
		}
		lane := refused[row.ID]
		delete(refused, row.ID)
		w.start(ctx, leased{row, lane, origins[row.EventID]})
	}
	w.tidy(store, hints, refused)
}

// A leased delivery, the lane that it came through, and the trace that it is part of.
type leased struct {
	row  webhooksdb.LeaseRow
	lane uuid.UUID
	// origin is the span in which the event was recorded, where that is part of a recorded trace.
	origin trace.SpanContext
}

// start gives a delivery to a goroutine that has ended another's try, or starts one: their stacks have grown to what a try
// needs. There are never more than tries that were in flight at once.
func (w *Worker) start(ctx context.Context, next leased) {
	select {
	case w.handed <- next:
	default:
		w.triers.Go(func() {
			w.try(context.WithoutCancel(ctx), next)
			for next := range w.handed {
				w.try(context.WithoutCancel(ctx), next)
			}
		})
	}
}

// term is how long a lease lasts.
func (w *Worker) term() time.Duration { return w.cfg.Timeout + w.cfg.LeaseMargin }

// tidy ends what was refused a lease for good, takes back what was refused it by chance, and removes the other hints.
func (w *Worker) tidy(ctx context.Context, hints []hint, refused map[uuid.UUID]uuid.UUID) {
	if len(refused) > 0 {
		ids := slices.Collect(maps.Keys(refused))
		w.endRefused(ctx, ids)
		hints = w.takeBack(ctx, hints, refused, ids)
	}
	for _, lane := range refused {
		w.lanes.abandon(lane)
	}
	w.trouble(ctx, "acknowledging hints", w.stream.done(ctx, hints))
}

// endRefused ends those deliveries that will never get a lease.
func (w *Worker) endRefused(ctx context.Context, ids []uuid.UUID) {
	gone, err := w.queries.CancelOrphans(ctx, ids)
	w.trouble(ctx, "cancelling deliveries of endpoints that are gone", err)
	slices.SortFunc(gone, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	for _, endpoint := range slices.Compact(gone) {
		w.abandonBacklog(endpoint) // the rest need not be refused one by one
	}
	failed, err := w.queries.FailLost(ctx, webhooksdb.FailLostParams{
		Ids: ids, MaxLost: maxLost, MaxAttempts: maxAttempts,
	})
	w.trouble(ctx, "giving up lost deliveries", err)
	if failed > 0 {
		w.metrics.lost.Add(float64(failed))
		w.cfg.Logger.WarnContext(ctx, "deliveries failed that lost too many workers", "count", failed, "most", maxLost)
	}
}

// takeBack puts hints back into their lanes whose deliveries are due and leased by nobody, and returns the others. Another
// worker's relay locks a row before it sees that this one's has claimed it, and keeps the lock until its commit is on disk,
// some milliseconds later or, where the disk is busy, some hundreds; a lease in between skips the row. Without its hint it
// would wait for the sweep, half a minute. A row that somebody holds for longer than that is left to it.
func (w *Worker) takeBack(ctx context.Context, hints []hint, refused map[uuid.UUID]uuid.UUID, ids []uuid.UUID) []hint {
	due, err := w.queries.StillDue(ctx, ids)
	if w.trouble(ctx, "looking for deliveries that were locked", err) || len(due) == 0 {
		return hints
	}
	var back, later, others []hint
	for _, h := range hints {
		_, waits := refused[h.delivery]
		if !waits || h.refused >= maxRefused || !slices.Contains(due, h.delivery) {
			others = append(others, h)
			continue
		}
		delete(refused, h.delivery)
		if h.refused++; h.refused > promptRefusals {
			later = append(later, h)
		} else {
			back = append(back, h)
		}
	}
	w.lanes.requeue(back)
	w.lanes.postpone(later)
	return others
}

// try makes one try and hands its outcome to the flusher. It is not cut short when the worker stops: its time-out is.
func (w *Worker) try(ctx context.Context, next leased) {
	row, lane := next.row, next.lane
	w.metrics.inFlight.Inc()
	defer w.metrics.inFlight.Dec()
	secrets, err := w.secrets.get(ctx, row.EndpointID, row.UpdatedAt)
	if err != nil {
		w.lanes.abandon(lane)
		w.unlease(ctx, row, w.unreadable(row.EndpointID, err))
		return
	}
	began := w.cfg.Now()
	ctx, span := w.startTrySpan(ctx, next, began)
	came := w.sender.send(ctx, post{url: row.Url, eventID: row.EventID, body: row.Body, secrets: secrets})
	ended := w.cfg.Now()
	endTrySpan(span, came)
	w.lanes.leave(lane, came.delivered(), began)
	w.metrics.tried(came, ended.Sub(began), ended.Sub(row.CreatedAt))
	w.cfg.Logger.Debug("webhook try", "delivery", row.ID, "endpoint", row.EndpointID, "event", row.EventID,
		"attempt", row.Attempt, "status", came.status, "failure", came.failure, "took", ended.Sub(began))
	w.results <- result{row: row, began: began, took: ended.Sub(began), outcome: came}
}

// unreadable tells of a secret that cannot be read, and returns how long to leave its deliveries: PostgreSQL, whose
// absence is told already, is expected back sooner than a key.
func (w *Worker) unreadable(endpoint uuid.UUID, err error) time.Duration {
	if _, away := errors.AsType[*unreachedError](err); away {
		return retryPause
	}
	w.metrics.unsigned.Inc()
	w.cfg.Logger.Error("signing secret cannot be read", "endpoint", endpoint, "error", err)
	return unreadablePause
}

// unlease gives a try back that never began: that a secret cannot be read is our fault, and costs the receiver none of
// its tries.
func (w *Worker) unlease(ctx context.Context, row webhooksdb.LeaseRow, delay time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	w.trouble(ctx, "giving a delivery back", w.queries.Unlease(ctx, webhooksdb.UnleaseParams{
		Ids: []uuid.UUID{row.ID}, Attempts: []int32{row.Attempt}, LeaseID: w.lease, DelaySeconds: delay.Seconds(),
	}))
}
