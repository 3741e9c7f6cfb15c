package webhooks

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
)

const (
	// recallInterval is how often lanes that run empty are looked for, shareInterval how often workers tell each other who
	// has something put off.
	recallInterval = 100 * time.Millisecond
	shareInterval  = time.Second
	// recallBatch is how many deliveries one statement brings back.
	recallBatch = 1000
	// restFactor is how much longer a lane rests before it is read from its beginning again than its last read took, so
	// that walking past what waits for retries takes little of PostgreSQL's time; maxRest bounds it.
	restFactor = 20
	maxRest    = 10 * time.Second
)

// recall brings back what was put off because its lane was full, as soon as there is room for it: what is put off comes
// back by itself only late, so that a million deliveries to a receiver that hangs cost next to nothing. It also has postponed
// hints looked at again.
func (w *Worker) recall(ctx context.Context) {
	var shared time.Time
	defer w.share(context.WithoutCancel(ctx)) // a worker that leaves says whom it leaves behind
	for pause(ctx, recallInterval) {
		w.lanes.resume()
		if now := w.cfg.Now(); now.Sub(shared) >= shareInterval {
			shared = now
			w.share(ctx)
		}
		for _, wish := range w.lanes.hungry() {
			w.recallFor(ctx, wish)
		}
	}
}

// share tells the other workers whose deliveries this one has put off, and hears of theirs: whoever has room takes them.
func (w *Worker) share(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	more, fewer := w.lanes.changes()
	all, err := w.stream.shareBehind(ctx, more, fewer)
	if !w.trouble(ctx, "sharing what was put off", err) {
		w.lanes.setBehind(all)
	}
}

// recallFor fills a lane. What it takes is this worker's for as long as the relay's hold; then it is due again.
func (w *Worker) recallFor(ctx context.Context, wish appetite) {
	statement, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	batch, began := min(wish.room, recallBatch), w.cfg.Now()
	rows, err := w.queries.Recall(statement, webhooksdb.RecallParams{
		EndpointID: wish.endpoint, After: wish.after, HoldSeconds: w.holdTime().Seconds(), Batch: int32(batch),
	})
	w.lanes.rest(wish.endpoint, w.cfg.Now().Sub(began))
	if w.trouble(ctx, "recalling deliveries", err) {
		return
	}
	hints := make([]hint, len(rows))
	after := wish.after
	for i, row := range rows {
		hints[i] = hint{delivery: row.ID, endpoint: wish.endpoint}
		if row.CreatedAt.After(after) {
			after = row.CreatedAt
		}
	}
	w.lanes.recalled(wish, len(rows) == batch, after)
	w.sort(ctx, hints)
}

// holdTime is how long a row is left to whom it was handed, before the sweep hands it out again.
func (w *Worker) holdTime() time.Duration { return w.term() + relaySlack }

// An appetite is a lane that has room, and something put off to fill it with.
type appetite struct {
	endpoint uuid.UUID
	room     int
	// after is how far, by the time of creation, the lane has read.
	after time.Time
}

// hungry returns the lanes whose queues are less than half full while something was put off.
func (l *lanes) hungry() []appetite {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queued >= crowdedAt {
		return nil
	}
	var found []appetite
	for _, own := range l.behind {
		if own.after.IsZero() && l.now().Before(own.restsUntil) {
			continue
		}
		if room := own.room(l.queued) - len(own.queue); room > len(own.queue) {
			found = append(found, appetite{endpoint: own.endpoint, room: room, after: own.after})
		}
	}
	return found
}

// rest keeps a lane from being read from its beginning again too soon after a read that took so long.
func (l *lanes) rest(endpoint uuid.UUID, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own := l.behind[endpoint]; own != nil {
		own.restsUntil = l.now().Add(min(restFactor*took, maxRest))
	}
}

// recalled notes what a recall found: when there was no more, the next one begins anew; when that finds nothing either,
// nothing is put off.
func (l *lanes) recalled(wish appetite, more bool, after time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.behind[wish.endpoint]
	if own == nil {
		return
	}
	switch {
	case more:
		own.after = after
	case wish.after.IsZero() && after.IsZero():
		delete(l.behind, wish.endpoint)
		l.caughtUp = append(l.caughtUp, wish.endpoint)
	default:
		own.after = time.Time{}
	}
}

// changes are the endpoints whose deliveries may be put off, and those of which none are any more since it was asked last.
func (l *lanes) changes() (behind, caughtUp []uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	behind = slices.Collect(maps.Keys(l.behind))
	caughtUp, l.caughtUp = l.caughtUp, nil
	return behind, caughtUp
}

// setBehind hears of endpoints whose deliveries were put off, by whatever worker.
func (l *lanes) setBehind(all []uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range all {
		if _, known := l.behind[id]; !known {
			l.behind[id] = l.lane(id)
		}
	}
}
