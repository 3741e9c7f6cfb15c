package delivery

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/testkit"
	"examprep.dev/server/webhooks/delivery/send"
)

// success returns a result for each leased delivery of a database, as the worker got it from receivers that acknowledge.
func (b *bench) success(t *testing.T, w *Worker) []completion {
	t.Helper()
	rows := b.lease(t, w.completer.lease)
	batch := make([]completion, len(rows))
	for i, row := range rows {
		batch[i] = completion{row: row, attempted: true, began: time.Now(), Result: send.Result{Status: http.StatusOK}}
	}
	return batch
}

// lockDelivery locks a delivery as a person's transaction does.
const lockDelivery = "UPDATE webhook_deliveries SET superseded = superseded WHERE id = '"

// writeLocked has a worker with the clock now write the results of so many deliveries, while another transaction locks one of them.
func writeLocked(t *testing.T, deliveries int, now *time.Time) (*bench, *Worker, pgx.Tx) {
	t.Helper()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, deliveries)
	w := b.worker(t)
	w.completer.now = func() time.Time { return *now }
	batch := b.success(t, w)
	lock := testkit.Begin(t, b.pool, lockDelivery+batch[deliveries/2].row.ID.String()+"'")
	w.completer.write(t.Context(), batch)
	return b, w, lock
}

func TestResultOfALockedDeliveryIsWrittenWhenTheLockIsGone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b, w, tx := writeLocked(t, 100, &now)
	b.until(t, 99, inState, "delivered")
	b.until(t, 99, "SELECT count(*) FROM webhook_attempts")
	for _, wait := range []time.Duration{firstAside, 2 * firstAside} {
		if next := w.completer.untilNext(); next != wait {
			t.Errorf("the result is tried again after %s, want %s", next, wait)
		}
		now = now.Add(wait)
		w.completer.writeAside(t.Context())
	}
	testkit.Release(t, tx)
	now = now.Add(w.completer.untilNext())
	w.completer.writeAside(t.Context())
	b.until(t, 100, inState, "delivered")
	b.until(t, 100, "SELECT count(*) FROM webhook_attempts")
	if dropped, fenced := testutil.ToFloat64(w.completer.metrics.dropped), testutil.ToFloat64(w.completer.metrics.fenced); dropped+fenced != 0 {
		t.Errorf("%v results were dropped and %v fenced off, want none", dropped, fenced)
	}
}

func TestResultOfALockedDeliveryIsGivenUpWithItsLease(t *testing.T) {
	t.Parallel()
	now := time.Now()
	_, w, _ := writeLocked(t, 1, &now)
	for now = now.Add(w.completer.duration); len(w.completer.aside) > 0; now = now.Add(longestAside) {
		w.completer.writeAside(t.Context())
	}
	if dropped := testutil.ToFloat64(w.completer.metrics.dropped); dropped != 1 {
		t.Errorf("%v results were dropped, want 1", dropped)
	}
	if left := w.completer.skipped.ids(now); len(left) != 0 {
		t.Errorf("%d deliveries are left out, want none: the row is sound", len(left))
	}
}

func TestOldestResultsOfLockedDeliveriesAreGivenUpBeyondTheLimit(t *testing.T) {
	t.Parallel()
	w := newBench(t).worker(t)
	locked := make(map[uuid.UUID]bool)
	batch := make([]completion, maxAside+10)
	for i := range batch {
		batch[i].row.ID = uuid.New()
		locked[batch[i].row.ID] = true
	}
	w.completer.keepLocked(t.Context(), batch, locked)
	if n, dropped := len(w.completer.aside), testutil.ToFloat64(w.completer.metrics.dropped); n != maxAside || dropped != 10 {
		t.Errorf("%d results are kept and %v given up, want %d and 10", n, dropped, maxAside)
	}
	if first := w.completer.aside[0].row.ID; first != batch[10].row.ID {
		t.Error("another than the oldest results were given up")
	}
}

func TestLockedDeliveryDelaysNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := newHolder(t)
	slow, good := testkit.StartReceiver(t, held.all), testkit.StartReceiver(t, nil)
	_, locked := b.endpoint(t, slow.URL)
	_, other := b.endpoint(t, good.URL)
	testkit.Run(t, b.worker(t, slow, good).Run)
	b.fill(t, locked.ID, 1)
	held.await(t)
	tx := testkit.Begin(t, b.pool, lockDelivery+b.ids(t)[0].String()+"'")
	held.release()
	b.fill(t, other.ID, load)
	b.until(t, load, inState, "delivered") // while the other result is written again and again
	testkit.Release(t, tx)
	b.until(t, load+1, inState, "delivered")
	if n := len(slow.Arrived) + len(good.Arrived); n != load+1 {
		t.Errorf("%d requests for %d deliveries", n, load+1)
	}
}

// TestLockTimeoutOfTheRoleCostsOneResult holds a log entry that the result of one delivery replaces.
func TestLockTimeoutOfTheRoleCostsOneResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 100)
	session := SessionSettings()
	session["lock_timeout"] = "10ms"
	pool := testkit.Open(t, b.pool.Config().ConnString(), session)
	w := b.workerOf(t, b.config(t), pool, b.keyring)
	batch := b.success(t, w)
	testkit.Exec(t, b.pool, `INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms, failure)
		VALUES ($1, 1, now(), 0, 'worker_lost')`, batch[50].row.ID)
	testkit.Begin(t, b.pool, "SELECT FROM webhook_attempts FOR UPDATE")
	w.completer.write(t.Context(), batch)
	b.until(t, 99, inState, "delivered")
	if dropped := testutil.ToFloat64(w.completer.metrics.dropped); dropped != 1 {
		t.Errorf("%v results were dropped, want 1", dropped)
	}
}
