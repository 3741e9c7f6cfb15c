package delivery

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestSweepFindsDueEndpointsAndCancelsDeliveriesOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, due := b.endpoint(t, "https://receiver.example.com/due")
	_, waiting := b.endpoint(t, "https://receiver.example.com/waiting")
	_, leased := b.endpoint(t, "https://receiver.example.com/leased")
	_, expired := b.endpoint(t, "https://receiver.example.com/expired")
	_, disabled := b.endpoint(t, "https://receiver.example.com/disabled")
	deleted := uuid.New()
	for _, endpoint := range []uuid.UUID{due.ID, waiting.ID, leased.ID, expired.ID, disabled.ID, deleted} {
		b.fill(t, endpoint, 3)
	}
	for endpoint, change := range map[uuid.UUID]string{
		waiting.ID: "next_attempt_at = now() + interval '1 hour'", disabled.ID: "next_attempt_at = now() + interval '1 hour'",
		leased.ID:  "lease_id = gen_random_uuid(), lease_until = now() + interval '1 hour'",
		expired.ID: "lease_id = gen_random_uuid(), lease_until = now() - interval '1 second'",
	} {
		testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET "+change+" WHERE endpoint_id = $1", endpoint)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET status = 'disabled' WHERE id = $1", disabled.ID)
	w := b.worker(t)
	for range 2 { // the second sweep finds the canceller busy with the endpoints of the first
		check.NoError(t, w.sweeper.sweep(t.Context()))
	}
	check.NoError(t, w.canceller.cancelChunks(t.Context(), <-w.canceller.endpoints))
	marked := w.dispatcher.windows.byID
	if len(marked) != 2 || marked[due.ID] == nil || marked[expired.ID] == nil {
		t.Errorf("%d endpoints are marked, want those that have due rows without a lease", len(marked))
	}
	b.until(t, 6, inState, "cancelled")
	b.until(t, 12, inState, "pending")
}

func TestEachSweepCancelsAChunkOfEachEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deleted := []uuid.UUID{uuid.New(), uuid.New()}
	for _, endpoint := range deleted {
		b.insert(t, endpoint, cancelChunk+10)
	}
	c := b.worker(t).canceller
	for _, want := range []int{2 * cancelChunk, 2*cancelChunk + 20} {
		check.NoError(t, c.cancelChunks(t.Context(), deleted))
		b.until(t, want, inState, "cancelled")
	}
	if len(c.since) != 0 {
		t.Errorf("%d endpoints have a next chunk after the last one", len(c.since))
	}
}

// TestDeliveryThatCannotBeCancelledCostsThatDeliveryOnly deletes an endpoint, which has one such delivery, before a later endpoint's
// retry is due.
func TestDeliveryThatCannotBeCancelledCostsThatDeliveryOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	deleted, endpoint := b.endpoint(t, r.URL)
	_, later := b.endpoint(t, r.URL)
	b.insert(t, endpoint.ID, load)
	b.refuseUpdates(t, b.ids(t)[load/2])
	check.NoError(t, b.managed.Delete(t.Context(), deleted.Owner))
	w := b.worker(t, r)
	testkit.Run(t, w.Run)
	b.insert(t, later.ID, 1) // without a wake-up
	b.until(t, 1, inState, "delivered")
	b.until(t, load-1, inState, "cancelled")
	testkit.Eventually(t, "the delivery is counted", func() bool { return testutil.ToFloat64(w.canceller.metrics.dropped) == 1 })
}

func TestBacklogOfAReceiverThatIsGoneIsCancelledInChunks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gone := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	_, endpoint := b.endpoint(t, gone.URL)
	b.fill(t, endpoint.ID, 3*cancelChunk)
	// None of it is due: nothing but the chunks can end it.
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour'")
	testkit.Run(t, b.worker(t, gone).Run)
	b.fill(t, endpoint.ID, 1)
	b.until(t, 0, inState, "pending")
	b.until(t, 3*cancelChunk, inState, "cancelled")
}

func TestBacklogIsNotDeliveredAfterItsEndpointWasDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	deleted, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 2*cancelChunk)
	check.NoError(t, b.managed.Delete(t.Context(), deleted.Owner))
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 2*cancelChunk, inState, "cancelled")
	if n := len(r.Arrived); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
}

// However long the backlog is, and in whatever order its rows lie: autoscaling reads the age of the oldest.
func TestOldestDueDeliveryIsSeenInALongBacklog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 50)
	w := b.worker(t)
	gauges := func(bound int32, wantDue, wantWaiting int64, least float64) {
		t.Helper()
		backlog, err := webhooksdb.New(b.pool).Backlog(t.Context(), bound)
		if err != nil || backlog.Due != wantDue || backlog.Waiting != wantWaiting {
			t.Errorf("backlog %+v, %v, want %d due and %d waiting", backlog, err, wantDue, wantWaiting)
		}
		check.NoError(t, w.sweeper.sweep(t.Context()))
		for name, age := range map[string]float64{
			"oldest": testutil.ToFloat64(w.sweeper.metrics.oldestDue), "lag": testutil.ToFloat64(w.sweeper.metrics.outboxLag),
		} {
			if age < least || least == 0 && age > 0 {
				t.Errorf("%s %v seconds, want %v", name, age, least)
			}
		}
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 hour' WHERE id = $1", b.ids(t)[49])
	gauges(10, 10, 0, 3600)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour'")
	gauges(100, 0, 50, 0)
}

// TestLeaseBeginsWhereTheLastOneFoundRows: entries of rows that ended before are not read again, while a row that is due before is found
// by a sweep of all rows.
func TestLeaseBeginsWhereTheLastOneFoundRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	b.insert(t, endpoint.ID, 10)
	first := testkit.Get[time.Time](t, b.pool, "SELECT min(next_attempt_at) FROM webhook_deliveries")
	w := b.worker(t, r)
	w.dispatcher.windows.markDue(endpoint.ID)
	dispatch := func() int {
		t.Helper()
		grants := w.dispatcher.windows.next(leaseBatch)
		check.NoError(t, w.dispatcher.dispatch(t.Context(), grants))
		w.dispatcher.attempts.Wait()
		return len(w.results)
	}
	if n := dispatch(); n != firstWindow {
		t.Fatalf("%d attempts, want %d", n, firstWindow)
	}
	since := func() time.Time { _, sinces := w.dispatcher.windows.known(); return sinces[0] }
	if got, want := since(), first.Add(-sinceSlack); !got.Equal(want) {
		t.Errorf("the next lease begins at %s, want %s", got, want)
	}
	// The lease of a row from before has expired.
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour' WHERE lease_id IS NULL")
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = next_attempt_at - interval '1 hour', lease_until = now() - interval '1 s' WHERE lease_id IS NOT NULL")
	w.sweeper.wholeAt = time.Now().Add(time.Hour)
	check.NoError(t, w.sweeper.sweep(t.Context()))
	if !since().Equal(first.Add(-sinceSlack)) {
		t.Error("a sweep of the rows from then on has found the row")
	}
	w.sweeper.wholeAt = time.Time{}
	check.NoError(t, w.sweeper.sweep(t.Context()))
	if got, want := since(), first.Add(-time.Hour); !got.Equal(want) {
		t.Errorf("after a sweep of all rows the next lease begins at %s, want %s", got, want)
	}
	if n := dispatch(); n != 2*firstWindow {
		t.Errorf("%d attempts, want %d", n, 2*firstWindow)
	}
}

// TestASweepRestsByItsOwnDuration: what a whole sweep costs delays no sweep of the endpoints that the worker knows.
func TestASweepRestsByItsOwnDuration(t *testing.T) {
	t.Parallel()
	s := &sweeper{interval: testkit.Patience}
	for took, want := range map[time.Duration]time.Duration{ // in intervals
		0: s.interval, s.interval / 20: s.interval, s.interval / 2: 10 * s.interval, 5 * s.interval: 20 * s.interval,
	} {
		check.Equal(t, s.rest(took), want, "rest after %s", took)
	}
	if !s.isWhole() {
		t.Error("the first sweep is not whole")
	}
}

func TestLagIsThatOfEndpointsThatDoNotFail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 1)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 hour'")
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now()")
	w := b.worker(t)
	check.NoError(t, w.sweeper.sweep(t.Context()))
	if lag, oldest := testutil.ToFloat64(w.sweeper.metrics.outboxLag), testutil.ToFloat64(w.sweeper.metrics.oldestDue); lag != 0 || oldest < 3600 {
		t.Errorf("lag %v, oldest %v", lag, oldest)
	}
}

// A table whose statistics were taken when nothing was pending, and in which very much has become pending since: that is
// what a queue's statistics are worth, and when a plan that reads all that is pending hurts.
func TestBatchReadsNoMoreThanItsRowsHoweverManyArePending(t *testing.T) {
	t.Parallel()
	const rows, batch = 5000, 10
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example")
	b.fill(t, endpoint.ID, rows)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET state = 'delivered'")
	testkit.Exec(t, b.pool, "ANALYZE")
	b.fill(t, endpoint.ID, rows)
	deleted := uuid.New()
	b.insert(t, deleted, rows)
	for _, s := range batchStatements(t.Context(), endpoint.ID, deleted, batch) {
		tx := testkit.Begin(t, b.pool)
		before := testkit.RowsRead(t, tx, "webhook_deliveries")
		got, err := s.run(webhooksdb.New(tx))
		if err != nil || got != batch {
			t.Errorf("%s: %d rows and %v, want %d", s.name, got, err, batch)
		}
		if read, most := testkit.RowsRead(t, tx, "webhook_deliveries")-before, 10*batch; read == 0 || read > most {
			t.Errorf("%s read %d rows for %d, want at most %d", s.name, read, batch, most)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

// A batchStatement reads or writes a batch of rows.
type batchStatement struct {
	name string
	run  func(*webhooksdb.Queries) (rows int, err error)
}

// batchStatements are those that workers run, in an order in which each finds the rows as it wants them.
func batchStatements(ctx context.Context, endpoint, deleted uuid.UUID, batch int) []batchStatement {
	lease := uuid.New()
	var leased []webhooksdb.LeaseRow
	var cancelled []uuid.UUID
	return []batchStatement{
		{"Lease", func(q *webhooksdb.Queries) (rows int, err error) {
			leased, err = q.Lease(ctx, webhooksdb.LeaseParams{
				Endpoints: []uuid.UUID{endpoint}, Rooms: []int32{int32(batch)}, Sinces: make([]time.Time, 1), LeaseID: lease, LeaseSeconds: 30, Skip: []uuid.UUID{},
			})
			return len(leased), err
		}},
		{"Complete", func(q *webhooksdb.Queries) (int, error) {
			arg := webhooksdb.CompleteParams{LeaseID: lease}
			for _, row := range leased {
				arg.Ids, arg.Attempts, arg.Attempted = append(arg.Ids, row.ID), append(arg.Attempts, row.Attempt), append(arg.Attempted, true)
				arg.States, arg.Statuses = append(arg.States, "pending"), append(arg.Statuses, 500)
				arg.Failures, arg.Delays, arg.Began = append(arg.Failures, "status"), append(arg.Delays, 0), append(arg.Began, time.Now())
				arg.Millis, arg.Responses = append(arg.Millis, 1), append(arg.Responses, "")
			}
			done, err := q.Complete(ctx, arg)
			return len(done), err
		}},
		{"Sweep", func(q *webhooksdb.Queries) (int, error) {
			rows, err := q.Sweep(ctx)
			return batch * len(rows) / 2, err // of both endpoints
		}},
		{"FirstDue", func(q *webhooksdb.Queries) (int, error) {
			_, err := q.FirstDue(ctx, webhooksdb.FirstDueParams{EndpointID: endpoint, Skip: []uuid.UUID{}})
			return batch, err
		}},
		{"CancellableDeliveries", func(q *webhooksdb.Queries) (int, error) {
			rows, err := q.CancellableDeliveries(ctx, webhooksdb.CancellableDeliveriesParams{
				EndpointID: deleted, Skip: []uuid.UUID{}, Chunk: int32(batch),
			})
			for _, row := range rows {
				cancelled = append(cancelled, row.ID)
			}
			return len(rows), err
		}},
		{"CancelDeliveries", func(q *webhooksdb.Queries) (int, error) {
			rows, err := q.CancelDeliveries(ctx, webhooksdb.CancelDeliveriesParams{EndpointID: deleted, Ids: cancelled})
			return int(rows), err
		}},
	}
}
