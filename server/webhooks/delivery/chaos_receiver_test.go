package delivery

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/api/client"
	"examprep.dev/server/webhooks"
)

// misdeed is how a receiver fails a try.
type misdeed func(w http.ResponseWriter, r *http.Request)

func answersStatus(status int, retryAfter string) misdeed {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
	}
}

func cutsConnection(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func saysNothing(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// temper says how a receiver misbehaves: at so many in a thousand events, once or twice, in one of the ways.
type temper struct {
	perMille int
	ways     []misdeed
}

// target is one endpoint's receiver and all that came to it.
type target struct {
	index   int
	temper  temper
	account uuid.NullUUID
	kinds   []webhooks.Kind
	// goneFrom is the number of arrivals after which it answers 410; 0: never.
	goneFrom int

	// known is closed when the secret is there.
	known  chan struct{}
	secret string
	id     uuid.UUID
	// goes is closed with its first 410.
	goes chan struct{}

	mu sync.Mutex
	// since is when it was enabled last, ended when it was deleted or disabled for good.
	since, ended time.Time
	// settled is when the events were committed, at the latest, that must have arrived before it was deleted or disabled.
	settled time.Time
	// off is the time within which it was disabled.
	off     [2]time.Time
	arrived map[uuid.UUID]*arrival
	count   int
	// late are the events of requests that began after the end; early those of requests that began too soon after a failure.
	late, early []uuid.UUID
}

// arrival is what came of one event: how many requests, how many of them failed and were acknowledged.
type arrival struct {
	requests, failed, acknowledged int
	failedAt                       time.Time
}

func (to *target) wants(h *happening) bool {
	return slices.Contains(to.kinds, h.Kind) && (!to.account.Valid || !h.Account.Valid || to.account == h.Account)
}

// acknowledged reports whether an event arrived.
func (to *target) acknowledged(id uuid.UUID) bool {
	to.mu.Lock()
	defer to.mu.Unlock()
	came := to.arrived[id]
	return came != nil && came.acknowledged > 0
}

// end says that from now on no new try may be made.
func (to *target) end() {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.ended = time.Now()
}

// thought bounds the time that a receiver takes to answer.
const thought = 20 * time.Millisecond

// chaosReceiver is a real HTTPS server that stands for all endpoints, each at a path of its own, checks each request as a
// customer would, and remembers.
type chaosReceiver struct {
	*httptest.Server
	seed    uint64
	targets []*target
	history *history

	mu    sync.Mutex
	wrong []string
}

func newChaosReceiver(t *testing.T, seed uint64, targets []*target, h *history) *chaosReceiver {
	t.Helper()
	c := &chaosReceiver{seed: seed, targets: targets, history: h}
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // killed workers break connections
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *chaosReceiver) url(to *target) string { return fmt.Sprintf("%s/%d", c.URL, to.index) }

func (c *chaosReceiver) complainf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) < 20 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// ServeHTTP is all receivers.
func (c *chaosReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	index, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || index >= len(c.targets) {
		c.complainf("a request for %s", r.URL)
		return
	}
	to := c.targets[index]
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its worker was killed
	}
	select {
	case <-to.known:
	case <-r.Context().Done():
		return
	}
	id, ok := c.check(to, r.Header, body)
	if !ok {
		return
	}
	misdeed := c.arrive(to, id, began)
	pause(r.Context(), rand.N(thought)) // so that whoever is killed is killed with requests on their way
	if misdeed != nil {
		misdeed(w, r)
	}
}

// Check reports whether a request is one that this endpoint should get, whole and signed.
func (c *chaosReceiver) check(to *target, header http.Header, body []byte) (uuid.UUID, bool) {
	id, err := uuid.Parse(header.Get("Webhook-Id"))
	if err != nil {
		c.complainf("webhook-id %q", header.Get("Webhook-Id"))
		return id, false
	}
	if err := client.Verify(header.Get(webhooks.SignatureHeader), body, to.secret, time.Now(), client.Tolerance); err != nil {
		c.complainf("event %s at endpoint %d: %v", id, to.index, err)
	}
	event := c.history.of(id)
	switch {
	case event == nil:
		c.complainf("event %s at endpoint %d was never recorded", id, to.index)
		return id, false
	case !to.wants(event):
		c.complainf("event %s (%s) is not for endpoint %d", id, event.Kind, to.index)
	case !bytes.Equal(body, event.Body):
		c.complainf("event %s at endpoint %d: body %s, want %s", id, to.index, body, event.Body)
	}
	return id, true
}

// arrive writes a request down and returns how it is failed, nil for an acknowledgement.
func (c *chaosReceiver) arrive(to *target, id uuid.UUID, began time.Time) misdeed {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.count++
	before := to.arrived[id]
	if before == nil {
		before = &arrival{}
		to.arrived[id] = before
	}
	before.requests++
	if !to.ended.IsZero() && began.After(to.ended) {
		to.late = append(to.late, id)
	}
	if !before.failedAt.IsZero() && began.Sub(before.failedAt) < time.Duration((1-retryJitter)*float64(chaosPace.RetryBase)) {
		to.early = append(to.early, id)
	}
	if to.goneFrom > 0 && to.count >= to.goneFrom {
		if to.count == to.goneFrom {
			close(to.goes)
		}
		return answersStatus(http.StatusGone, "")
	}
	failures, how := c.plan(to, id)
	if before.failed >= failures {
		before.acknowledged++
		return nil
	}
	before.failed++
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if r.Context().Err() == nil { // it was we who ended the try
				to.mu.Lock()
				defer to.mu.Unlock()
				before.failedAt = time.Now()
			}
		}()
		how(w, r)
	}
}

// plan says how often and how an endpoint fails an event: always the same for the same seed.
func (c *chaosReceiver) plan(to *target, id uuid.UUID) (failures int, how misdeed) {
	h := fnv.New64a()
	_, _ = h.Write(id[:])
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, c.seed+uint64(to.index)))
	chance := rand.New(rand.NewPCG(h.Sum64(), c.seed))
	if chance.IntN(1000) >= to.temper.perMille {
		return 0, nil
	}
	return 1 + chance.IntN(2), to.temper.ways[chance.IntN(len(to.temper.ways))]
}

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
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
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
