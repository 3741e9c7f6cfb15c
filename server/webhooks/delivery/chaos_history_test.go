package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/webhooks"
)

// happening is an event that somebody tried to record.
type happening struct {
	webhooks.Event

	began time.Time
	// committed is when the commit was answered; zero: it was rolled back, or nobody knows.
	committed time.Time
	// undone: it was rolled back on purpose.
	undone bool
}

// history is all that happened.
type history struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*happening
}

func newHistory() *history { return &history{byID: make(map[uuid.UUID]*happening)} }

func (h *history) add(event *happening) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byID[event.ID] = event
}

func (h *history) of(id uuid.UUID) *happening {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byID[id]
}

// before are the events that were known to be committed before a moment.
func (h *history) before(moment time.Time) (events []*happening) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, event := range h.byID {
		if !event.committed.IsZero() && event.committed.Before(moment) {
			events = append(events, event)
		}
	}
	return events
}

// course is how far the run has come, in events committed. Nothing in it is timed: faults come at points of the course,
// and those who record do not run ahead of them.
type course struct {
	goal int

	mu            sync.Mutex
	changed       chan struct{}
	done, allowed int
}

func newCourse(goal int) *course {
	return &course{goal: goal, allowed: goal, changed: make(chan struct{})}
}

func (c *course) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *course) happened()        { c.update(func() { c.done++ }) }
func (c *course) allow(events int) { c.update(func() { c.allowed = events }) }

// await waits until holds, and reports whether it came to that.
func (c *course) await(ctx context.Context, holds func() bool) bool {
	for {
		c.mu.Lock()
		changed, now := c.changed, holds()
		c.mu.Unlock()
		if now {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// reach waits for a point of the course.
func (c *course) reach(ctx context.Context, events int) bool {
	return c.await(ctx, func() bool { return c.done >= min(events, c.goal) })
}

// proceed waits until one more event may happen; false means that all have.
func (c *course) proceed(ctx context.Context) bool {
	more := false
	return c.await(ctx, func() bool {
		more = c.done < c.goal
		return !more || c.done < c.allowed
	}) && more
}

// recorder makes events happen.
type recorder struct {
	pool     *pgxpool.Pool
	notifier *webhooks.Notifier
	history  *history
	course   *course
	accounts []uuid.UUID
	chance   *rand.Rand
}

// errUndone rolls a transaction back.
var errUndone = errors.New("undone")

// record records events until all have happened. What a transaction that failed at its commit left behind is found out at
// the end.
func (r *recorder) record(ctx context.Context) error {
	for r.course.proceed(ctx) {
		event, err := r.next()
		if err != nil {
			return err
		}
		event.began = time.Now()
		r.history.add(event)
		endpoints, err := r.write(ctx, event)
		switch {
		case err == nil:
			r.history.mu.Lock()
			event.committed = time.Now()
			r.history.mu.Unlock()
			r.notifier.Notify(endpoints...)
			r.course.happened()
		case errors.Is(err, errUndone):
		default: // PostgreSQL is away
			pause(ctx, 20*time.Millisecond)
		}
	}
	return ctx.Err()
}

// write is what every caller does: what happened and that it happened, in one transaction.
func (r *recorder) write(ctx context.Context, event *happening) (endpoints []uuid.UUID, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO chaos_facts (event_id) VALUES ($1)", event.ID); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT webhook_record_event($1, $2, $3, $4)",
			event.ID, string(event.Kind), event.Account, event.Body).Scan(&endpoints); err != nil {
			return err
		}
		if event.undone {
			return errUndone
		}
		return nil
	})
	return endpoints, err
}

func (r *recorder) next() (*happening, error) {
	account := uuid.NullUUID{UUID: r.accounts[r.chance.IntN(len(r.accounts))], Valid: true}
	var event webhooks.Event
	var err error
	switch n := r.chance.IntN(10); {
	case n == 0:
		event, err = webhooks.NewEvent(webhooks.KindContentUpdated, uuid.NullUUID{}, time.Now(), webhooks.ContentUpdated{
			ExamKey: fmt.Sprintf("exam-%d", r.chance.IntN(100)), Changes: []string{"papers"}, PaperIDs: []string{},
		})
	case n <= 5:
		event, err = webhooks.NewEvent(webhooks.KindSubmitted, account, time.Now(), webhooks.AttemptSubmitted{AttemptID: uuid.NewString(), ExamKey: "exam"})
	default:
		event, err = webhooks.NewEvent(webhooks.KindScored, account, time.Now(), webhooks.AttemptScored{AttemptID: uuid.NewString(), ExamKey: "exam"})
	}
	return &happening{Event: event, undone: r.chance.IntN(20) == 0}, err
}
