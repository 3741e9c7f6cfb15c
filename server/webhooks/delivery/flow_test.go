package delivery

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
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
	event, err := webhooks.NewEvent(webhooks.KindContentUpdated, uuid.NullUUID{}, time.Now(), webhooks.ContentUpdated{ExamKey: "exam"})
	check.NoError(t, err)
	testkit.Exec(t, b.pool, `WITH made AS (
			INSERT INTO webhook_events (id, kind, body) SELECT uuidv7(), $2, $3 FROM generate_series(1, $1::int) RETURNING id)
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id) SELECT uuidv7(), id, $4 FROM made`,
		n, string(event.Kind), event.Body, endpoint)
	b.notifier.Notify(endpoint)
}

func TestBacklogsOfManyHangingReceiversDelayNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	hanging := testkit.StartReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	healthy := testkit.StartReceiver(t, nil)
	_, good := b.endpoint(t, healthy.URL)
	const receivers, each = 160, 64
	for n := range receivers {
		_, bad := b.endpoint(t, fmt.Sprintf("%s/%d", hanging.URL, n))
		b.fill(t, bad.ID, each)
	}
	testkit.Run(t, b.worker(t, hanging, healthy).Run)
	testkit.Eventually(t, "they all hang", func() bool { return len(hanging.Arrived) >= receivers })
	b.fill(t, good.ID, 1)
	healthy.Next(t)
}

func TestALongBacklogOfAReceiverThatIsGoneIsCancelledInChunks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gone := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	_, endpoint := b.endpoint(t, gone.URL)
	b.fill(t, endpoint.ID, 3*cancelBatch)
	// None of it is due: nothing but the chunks can end it.
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour'")
	testkit.Run(t, b.worker(t, gone).Run)
	b.fill(t, endpoint.ID, 1)
	b.until(t, 0, inState, "pending")
	b.until(t, 3*cancelBatch, inState, "cancelled")
}

func TestALongBacklogIsNeverDeliveredAfterItsEndpointWasDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	deleted, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 2*cancelBatch)
	check.NoError(t, b.managed.Delete(t.Context(), deleted.Owner))
	b.until(t, cancelBatch, inState, "cancelled")
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 2*cancelBatch, inState, "cancelled")
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
	testkit.Run(t, b.concurrentWorker(t, 4, old, moved).Run)
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
