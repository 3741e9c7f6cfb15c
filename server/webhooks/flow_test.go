package webhooks

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// until polls a count until it is want.
func (b *bench) until(t *testing.T, want int, query string, args ...any) {
	t.Helper()
	got := -1
	defer func() {
		if t.Failed() {
			t.Logf("%s: got %d, want %d", query, got, want)
		}
	}()
	testkit.Eventually(t, query, func() bool {
		got = testkit.Get[int](t, b.pool, query, args...)
		return got == want
	})
}

// fill makes n events for one endpoint, due at once, in one statement.
func (b *bench) fill(t *testing.T, endpoint uuid.UUID, n int) {
	t.Helper()
	event, err := NewEvent(KindContentUpdated, uuid.NullUUID{}, time.Now(), ContentUpdated{ExamKey: "exam"})
	check.NoError(t, err)
	testkit.Exec(t, b.pool, `WITH made AS (
			INSERT INTO webhook_events (id, kind, body) SELECT uuidv7(), $2, $3 FROM generate_series(1, $1::int) RETURNING id)
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id) SELECT uuidv7(), id, $4 FROM made`,
		n, string(event.Kind), event.Body, endpoint)
	b.notifier.Notify()
}

// hold relays what is due and takes up to most of it from the stream, as a worker that then does nothing.
func (w *Worker) hold(t *testing.T, most int) (held []hint) {
	t.Helper()
	check.NoError(t, w.stream.ensureGroup(t.Context()))
	w.relayDue(t.Context())
	for len(held) < most {
		hints, err := w.stream.read(t.Context(), readBatch, time.Second)
		if err != nil || len(hints) == 0 {
			t.Fatalf("read %d hints of %d: %v", len(held), most, err)
		}
		held = append(held, hints...)
	}
	return held
}

func TestBacklogsOfManyHangingReceiversDelayNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	hanging := testkit.StartReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	healthy := testkit.StartReceiver(t, nil)
	_, good := b.endpoint(t, healthy.URL)
	const receivers, each = 160, 64 // more than the stream is deep
	for n := range receivers {
		_, bad := b.endpoint(t, fmt.Sprintf("%s/%d", hanging.URL, n))
		b.fill(t, bad.ID, each)
	}
	w := b.worker(t, hanging, healthy)
	w.cfg.Timeout, w.sender.timeout = 4*patience, 4*patience
	testkit.Run(t, w.Run)
	testkit.Eventually(t, "their backlogs wait in the lanes", func() bool { return w.lanes.backlog() > streamDepth })
	b.fill(t, good.ID, 1)
	healthy.Next(t)
}

func TestHintsOfAKilledWorkerDoNotHoldUpTheRelay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, big := b.endpoint(t, "https://127.0.0.1:1/")
	_, good := b.endpoint(t, r.URL)
	b.fill(t, big.ID, streamDepth)
	b.worker(t).hold(t, streamDepth)
	second := b.worker(t, r)
	depth, err := second.stream.depth(t.Context())
	if err != nil || depth != 0 {
		t.Errorf("depth %d, want 0: all of it is held; %v", depth, err)
	}
	b.fill(t, good.ID, 1)
	testkit.Run(t, second.Run)
	r.Next(t)
}

func TestAWorkerThatLeavesOrphansNoHint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 10)
	w := b.worker(t)
	held := w.hold(t, 10)
	consumers := func() []redis.XInfoConsumer {
		t.Helper()
		list, err := b.redis.XInfoConsumers(t.Context(), w.stream.name, groupName).Result()
		check.NoError(t, err)
		return list
	}
	check.NoError(t, w.stream.leave(t.Context()))
	if list := consumers(); len(list) != 1 || list[0].Pending != 10 {
		t.Errorf("left %+v, want a worker that others can claim 10 hints from", list)
	}
	check.NoError(t, w.stream.done(t.Context(), held))
	check.NoError(t, w.stream.leave(t.Context()))
	if list := consumers(); len(list) != 0 {
		t.Errorf("left %+v, want none", list)
	}
}

func TestALongBacklogOfAReceiverThatIsGoneIsCancelledInChunks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gone := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	_, endpoint := b.endpoint(t, gone.URL)
	b.fill(t, endpoint.ID, 3*cancelChunk)
	// None of it is due: nothing but the chunks can end it.
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour', relay_at = now() + interval '1 hour'")
	testkit.Run(t, b.worker(t, gone).Run)
	b.fill(t, endpoint.ID, 1)
	b.until(t, 0, inState, "pending")
	b.until(t, 3*cancelChunk, inState, "cancelled")
}

func TestALongBacklogIsNeverDeliveredAfterItsEndpointWasDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	deleted, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 2*cancelChunk)
	check.NoError(t, b.managed.Delete(t.Context(), deleted.Owner))
	b.until(t, cancelChunk, inState, "cancelled")
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 2*cancelChunk, inState, "cancelled")
	if n := len(r.Arrived); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
}

func TestALateGoneDoesNotDisableTheNewURL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	entered, release := make(chan struct{}), make(chan struct{})
	old := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		w.WriteHeader(http.StatusGone)
	})
	moved := testkit.StartReceiver(t, nil)
	want, endpoint := b.endpoint(t, old.URL)
	testkit.Run(t, b.worker(t, old, moved).Run)
	b.fill(t, endpoint.ID, 1)
	<-entered
	want.URL = moved.URL
	if _, err := b.managed.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	close(release)
	b.until(t, 1, inState, "failed")
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE last_status = 410 AND status = 'enabled'")
	b.fill(t, endpoint.ID, 1)
	moved.Next(t)
}

func TestADeliveryThatIsPutOffKeepsTheWaitBeforeItsRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	id := testkit.Get[uuid.UUID](t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' RETURNING id")
	b.worker(t).putOff(t.Context(), webhooksdb.UnclaimParams{Ids: []uuid.UUID{id}, Delays: []float64{0}})
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE relay_at = next_attempt_at")
}

// A lease waits as long as PostgreSQL has it wait; here because somebody else is logging the same lost try.
func TestALeaseThatWaitsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 1)
	b.crash(t, 1)
	b.fill(t, endpoint.ID, 1)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET relay_at = now() + interval '1 hour'") // the hints are ours
	logging := testkit.Begin(t, b.pool, `INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms, failure)
		SELECT id, 1, now(), 0, 'worker_lost' FROM webhook_deliveries WHERE attempt = 1`)
	w := b.worker(t, r)
	testkit.Run(t, w.Run)
	ids := b.ids(t)
	w.lanes.push(hint{delivery: ids[0], endpoint: uuid.New()}) // each has a lane to itself
	b.until(t, 1, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	w.lanes.push(hint{delivery: ids[1], endpoint: uuid.New()})
	r.Next(t)
	testkit.Release(t, logging)
	r.Next(t)
}

func TestADeliveryThatIsLockedForAMomentIsDeliveredAllTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 3)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET relay_at = now() + interval '1 hour'") // claimed: no sweep finds them
	w := b.worker(t, r)
	locked := testkit.Begin(t, b.pool, "SELECT FROM webhook_deliveries FOR UPDATE") // as another's relay does that comes a moment late
	ids := b.ids(t)
	w.lanes.push(hint{delivery: ids[0], endpoint: uuid.New()}) // each has a lane to itself
	w.lanes.push(hint{delivery: ids[1], endpoint: uuid.New(), refused: maxRefused})
	w.lanes.push(hint{delivery: ids[2], endpoint: uuid.New(), refused: promptRefusals})
	for range 2 {
		w.begin(t.Context(), w.lanes.take(leaseBatch))
		if got := w.lanes.backlog(); got != 1 {
			t.Fatalf("%d hints wait, want the one that has not been refused too often", got)
		}
	}
	testkit.Release(t, locked)
	testkit.Run(t, w.Run)
	r.Next(t)
	r.Next(t)
	b.until(t, 2, "SELECT count(*) FROM webhook_deliveries WHERE id = ANY ($1) AND state = 'delivered'", []uuid.UUID{ids[0], ids[2]})
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE id = $1 AND state = 'pending'", ids[1])
}
