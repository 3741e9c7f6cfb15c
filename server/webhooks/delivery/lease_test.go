package delivery

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks/delivery/send"
)

func TestLostAttemptsAreForgivenAndLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 1)
	b.crash(t, 2*maxAttempts)
	w := b.worker(t, r)
	testkit.Run(t, w.Run)
	r.Next(t)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = $1 AND lost_attempts = $2", 2*maxAttempts+1, 2*maxAttempts)
	want := append(slices.Repeat([]string{"worker_lost"}, 2*maxAttempts), "")
	if got := b.failures(t, b.ids(t)[0]); !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	testkit.Eventually(t, "the last one is counted", func() bool { return testutil.ToFloat64(w.dispatcher.metrics.lost) == 1 })
}

func TestLostAttemptsGiveNoRetryBeyondThoseOfTheSchedule(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	_, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 1)
	b.crash(t, 3)
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND attempt = $1 AND lost_attempts = 3", maxAttempts+3)
	for range maxAttempts {
		r.Next(t)
	}
	select {
	case <-r.Arrived:
		t.Errorf("an attempt beyond the %dth", maxAttempts)
	default:
	}
}

func TestExpiredLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	b.endpoint(t, r.URL)
	b.happen(t, 1)
	// A worker leased the delivery and was never heard of again; its lease is over.
	testkit.Exec(t, b.pool, `UPDATE webhook_deliveries SET attempt = 1, lease_id = gen_random_uuid(),
		lease_until = now() - interval '1 second'`)
	testkit.Run(t, b.worker(t, r).Run)
	r.Next(t)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 2")
}

func TestResultOfAnOldLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]string{
		"delivered by another worker":      "UPDATE webhook_deliveries SET attempt = 2, lease_id = NULL, state = 'delivered'",
		"leased by another, same attempt":  "UPDATE webhook_deliveries SET lease_id = gen_random_uuid()",
		"leased by the same, next attempt": "UPDATE webhook_deliveries SET attempt = attempt + 1",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			held := newHolder(t)
			r := testkit.StartReceiver(t, held.first(1))
			b.endpoint(t, r.URL)
			w := b.worker(t, r)
			stop := testkit.Run(t, w.Run)
			b.happen(t, 1)
			held.await(t)
			row := func() string {
				t.Helper()
				return testkit.Get[string](t, b.pool, "SELECT d::text FROM webhook_deliveries d")
			}
			testkit.Exec(t, b.pool, meanwhile)
			before := row()
			held.release()
			stop()
			if after := row(); after != before {
				t.Errorf("changed from %s to %s", before, after)
			}
		})
	}
}

// TestLateResultReplacesTheLogEntryOnly writes the result of an attempt whose lease another worker has.
func TestLateResultReplacesTheLogEntryOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	w := b.worker(t)
	leased := b.lease(t, w.completer.lease)
	b.crash(t, 1)
	delivery := leased[0].ID
	if got := b.failures(t, delivery); !slices.Equal(got, []string{"worker_lost"}) {
		t.Fatalf("the log has %q", got)
	}
	late := completion{
		row: leased[0], attempted: true, began: time.Now(), took: 20 * time.Millisecond,
		Result: send.Result{Status: 502, Failure: "status", Response: "no"},
	}
	for range 2 { // the completer writes again after a statement without a response
		w.completer.write(t.Context(), []completion{late})
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND attempt = 2 AND lost_attempts = 1 AND last_status IS NULL")
	b.until(t, 1, `SELECT count(*) FROM webhook_attempts WHERE delivery_id = $1 AND attempt = 1 AND failure = 'status' AND status = 502
		AND response = 'no' AND duration_ms = 20`, delivery)
	if fenced := testutil.ToFloat64(w.completer.metrics.fenced); fenced != 2 {
		t.Errorf("%v results were fenced off, want 2", fenced)
	}
}

// attemptedAt is a completed attempt for an endpoint.
func attemptedAt(endpoint uuid.UUID, r send.Result) []completion {
	return []completion{{row: webhooksdb.LeaseRow{EndpointID: endpoint}, attempted: true, Result: r}}
}

// TestHealthKeepsASuccessWhileTheEndpointIsLocked: else later failures could disable it.
func TestHealthKeepsASuccessWhileTheEndpointIsLocked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now() - interval '4 days'")
	health := b.worker(t).health
	write := func(r send.Result) {
		t.Helper()
		health.record(attemptedAt(endpoint.ID, r))
		if err := health.flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	tx := testkit.Begin(t, b.pool, "SELECT FROM webhook_endpoints FOR UPDATE")
	write(send.Result{Status: 200})
	testkit.Release(t, tx)
	write(send.Result{Status: 500, Failure: "status"})
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE failing_since IS NULL AND last_success_at IS NOT NULL AND last_status = 200 AND last_failure = ''")
	write(send.Result{Status: 500, Failure: "status"})
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE failing_since > now() - interval '1 hour' AND last_status = 500 AND last_failure = 'status'")
	for _, failure := range []string{"timeout", "dns"} { // a failure without a response that follows another
		write(send.Result{Failure: failure})
		b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE last_status IS NULL AND last_failure = $1", failure)
	}
}

// TestEndpointWhoseHealthCannotBeSavedCostsNoOther makes PostgreSQL refuse each update of one endpoint.
func TestEndpointWhoseHealthCannotBeSavedCostsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, refused := b.endpoint(t, "https://receiver.example.com/refused")
	testkit.Exec(t, b.pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
	testkit.Exec(t, b.pool, `CREATE TRIGGER refuse BEFORE UPDATE ON webhook_endpoints FOR EACH ROW WHEN (OLD.id = '`+refused.ID.String()+`')
		EXECUTE FUNCTION refuse()`)
	health := b.worker(t).health
	health.record(attemptedAt(refused.ID, send.Result{Status: http.StatusInternalServerError, Failure: "status"}))
	for n := range 5 {
		_, other := b.endpoint(t, fmt.Sprintf("https://receiver.example.com/%d", n))
		health.record(attemptedAt(other.ID, send.Result{Status: http.StatusInternalServerError, Failure: "status"}))
	}
	check.NoError(t, health.flush(t.Context()))
	b.until(t, 5, "SELECT count(*) FROM webhook_endpoints WHERE last_status = 500")
	if len(health.results) != 0 {
		t.Errorf("the results of %d endpoints stay, want none", len(health.results))
	}
}

// load is how many other deliveries there are than the one that cannot be handled.
const load = 200

// refuseUpdates makes PostgreSQL refuse each update of a delivery.
func (b *bench) refuseUpdates(t *testing.T, delivery uuid.UUID) {
	t.Helper()
	testkit.Exec(t, b.pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF NEW.id = '`+delivery.String()+`' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`)
	testkit.Exec(t, b.pool, "CREATE TRIGGER refuse BEFORE UPDATE ON webhook_deliveries FOR EACH ROW EXECUTE FUNCTION refuse()")
}

func TestDeliveryThatCannotBeLeasedCostsThatDeliveryOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	_, other := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, load)
	b.fill(t, other.ID, load)
	poisoned := b.ids(t)[0]
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 hour' WHERE id = $1", poisoned)
	b.refuseUpdates(t, poisoned)
	w := b.worker(t, r)
	testkit.Run(t, w.Run)
	b.until(t, 2*load-1, inState, "delivered")
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND attempt = 0 AND id = $1", poisoned)
	if n := testutil.ToFloat64(w.dispatcher.metrics.dropped); n != 1 {
		t.Errorf("%v deliveries are counted, want 1", n)
	}
	if n := len(r.Arrived); n != 2*load-1 {
		t.Errorf("%d requests for %d deliveries", n, 2*load-1)
	}
}

func TestResultThatViolatesAConstraintCostsThatDeliveryOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	odd := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) })
	_, endpoint := b.endpoint(t, r.URL)
	_, strange := b.endpoint(t, odd.URL)
	testkit.Exec(t, b.pool, "ALTER TABLE webhook_attempts ADD CHECK (status <> 299) NOT VALID")
	b.fill(t, strange.ID, 3)
	b.fill(t, endpoint.ID, load)
	w := b.worker(t, r, odd)
	testkit.Run(t, w.Run)
	b.until(t, load, inState, "delivered")
	testkit.Eventually(t, "all three results were dropped", func() bool { return testutil.ToFloat64(w.completer.metrics.dropped) == 3 })
	b.fill(t, endpoint.ID, load)
	b.until(t, 2*load, inState, "delivered")
	b.until(t, 3, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND lease_id IS NOT NULL")
	if n := len(r.Arrived); n != 2*load {
		t.Errorf("%d requests for %d deliveries", n, 2*load)
	}
	if n := len(odd.Arrived); n != 3 {
		t.Errorf("%d requests to the strange receiver, want 3", n)
	}
}

// TestCompleterWritesAllButTheRowsThatAreRefused divides a batch with some that PostgreSQL refuses.
func TestCompleterWritesAllButTheRowsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 100)
	testkit.Exec(t, b.pool, "ALTER TABLE webhook_attempts ADD CHECK (status <> 299) NOT VALID")
	w := b.worker(t)
	leased := b.lease(t, w.completer.lease)
	batch := make([]completion, len(leased))
	for i, row := range leased {
		batch[i] = completion{row: row, attempted: true, began: time.Now(), Result: send.Result{Status: 200}}
	}
	for _, i := range []int{0, 1, 50, 99} {
		batch[i].Status = 299
	}
	w.completer.write(t.Context(), batch)
	b.until(t, 96, inState, "delivered")
	b.until(t, 96, "SELECT count(*) FROM webhook_attempts")
	if n := testutil.ToFloat64(w.completer.metrics.dropped); n != 4 {
		t.Errorf("%v results are counted as dropped, want 4", n)
	}
}

// TestOnlyOneLeaseOfFewRowsRunsAtOnce: a lease of many rows lets another one run.
func TestOnlyOneLeaseOfFewRowsRunsAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		endpoints int
		alone     bool
	}{
		"few rows":  {endpoints: smallLease/firstWindow - 1, alone: true},
		"many rows": {endpoints: smallLease / firstWindow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			d := b.worker(t).dispatcher
			for range c.endpoints {
				d.windows.markDue(uuid.New())
			}
			lock := testkit.Begin(t, b.pool, "LOCK TABLE webhook_deliveries")
			leased := make(chan error)
			go func() {
				_, err := d.leaseNext(t.Context(), t.Context())
				leased <- err
			}()
			b.until(t, 1, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
			if alone := len(d.leasing) > 0; alone != c.alone {
				t.Errorf("a lease of %d rows runs alone: %t", firstWindow*c.endpoints, alone)
			}
			testkit.Release(t, lock)
			check.NoError(t, <-leased)
		})
	}
}

// TestALeaseWaitsForAnotherOneForAWhile: the statement of the other lease can wait for PostgreSQL. A worker that stops leases nothing.
func TestALeaseWaitsForAnotherOneForAWhile(t *testing.T) {
	t.Parallel()
	d := newBench(t).worker(t).dispatcher
	d.windows.markDue(uuid.New())
	d.leasing <- struct{}{} // as the other loop does
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := d.leaseNext(ended, t.Context()); found || err != nil {
		t.Errorf("a worker that stops leases: %t, %v", found, err)
	}
	if found, err := d.leaseNext(t.Context(), t.Context()); !found || err != nil {
		t.Errorf("a worker leases beside a lease that waits: %t, %v", found, err)
	}
}
