package webhooks

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// crash leaves all deliveries as workers do that are killed in the midst of so many tries, one after the other.
func (b *bench) crash(t *testing.T, times int) {
	t.Helper()
	for range times {
		leased, err := webhooksdb.New(b.pool).Lease(t.Context(), webhooksdb.LeaseParams{
			Ids: b.ids(t), LeaseID: uuid.New(), TermSeconds: 1, MaxAttempts: maxAttempts, MaxLost: maxLost,
		})
		if err != nil || len(leased) == 0 {
			t.Fatalf("leased %d, error %v", len(leased), err)
		}
		testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET lease_until = now(), relay_at = now() WHERE lease_id IS NOT NULL")
	}
}

// ids are those of all deliveries, oldest first.
func (b *bench) ids(t *testing.T) []uuid.UUID {
	t.Helper()
	return testkit.Get[[]uuid.UUID](t, b.pool, "SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM webhook_deliveries")
}

// failures are the classes of failure of a delivery's tries, in their order.
func (b *bench) failures(t *testing.T, delivery uuid.UUID) []string {
	t.Helper()
	return testkit.Get[[]string](t, b.pool, "SELECT coalesce(array_agg(failure ORDER BY attempt), '{}') FROM webhook_attempts WHERE delivery_id = $1",
		delivery)
}

func TestTriesLostWithTheirWorkersAreForgivenAndLogged(t *testing.T) {
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
		t.Errorf("the log tells of %q, want %q", got, want)
	}
	testkit.Eventually(t, "the last one is counted", func() bool { return testutil.ToFloat64(w.metrics.lost) == 1 })
}

func TestADeliveryThatLosesTooManyWorkersFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	b.crash(t, maxLost)
	testkit.Run(t, b.worker(t).Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND last_failure = 'worker_lost' AND lost_attempts = $1", maxLost)
}

func TestLostTriesGiveNoRetryBeyondThoseOfTheSchedule(t *testing.T) {
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
		t.Errorf("a try beyond the %dth", maxAttempts)
	default:
	}
}

// TestATryIsLoggedWhoeverHasItsDeliveryNow writes the outcome of a try down whose lease has passed to another worker: it
// was made, and takes the place of what the other one logged of it. The delivery is the other one's.
func TestATryIsLoggedWhoeverHasItsDeliveryNow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	w := b.worker(t)
	leased, err := w.queries.Lease(t.Context(), webhooksdb.LeaseParams{
		Ids: b.ids(t), LeaseID: w.lease, TermSeconds: 0, MaxAttempts: maxAttempts, MaxLost: maxLost,
	})
	if err != nil || len(leased) != 1 {
		t.Fatalf("leased %d, error %v", len(leased), err)
	}
	b.crash(t, 1)
	delivery := leased[0].ID
	if got := b.failures(t, delivery); !slices.Equal(got, []string{"worker_lost"}) {
		t.Fatalf("the log tells of %q", got)
	}
	late := result{row: leased[0], began: time.Now(), took: 20 * time.Millisecond, outcome: outcome{status: 502, failure: "status", answer: "no"}}
	for range 2 { // the flusher writes again what it got no answer for
		check.NoError(t, w.writeDown(context.Background(), []result{late}))
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND attempt = 2 AND lost_attempts = 0 AND last_status IS NULL")
	b.until(t, 1, `SELECT count(*) FROM webhook_attempts WHERE delivery_id = $1 AND attempt = 1 AND failure = 'status' AND status = 502
		AND response = 'no' AND duration_ms = 20`, delivery)
	if fenced := testutil.ToFloat64(w.metrics.fenced); fenced != 2 {
		t.Errorf("%v outcomes were fenced off, want 2", fenced)
	}
}

// lease takes a delivery in hand for a worker, with a lease that is over at once, and returns the try.
func (b *bench) lease(t *testing.T, w *Worker) result {
	t.Helper()
	leased, err := w.queries.Lease(t.Context(), webhooksdb.LeaseParams{
		Ids: b.ids(t), LeaseID: w.lease, TermSeconds: 0, MaxAttempts: maxAttempts, MaxLost: maxLost,
	})
	if err != nil || len(leased) != 1 {
		t.Fatalf("leased %d, error %v", len(leased), err)
	}
	return result{row: leased[0], began: time.Now(), outcome: outcome{status: 502, failure: "status"}}
}

func writeDown(t *testing.T, w *Worker, results ...result) {
	t.Helper()
	check.NoError(t, w.writeDown(t.Context(), results))
}

func TestEachOutcomeThatCameLateCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	slow, holder := b.worker(t), b.worker(t)
	holder.cfg.RetryBase = time.Minute
	late := []result{b.lease(t, slow), b.lease(t, slow)}
	now := b.lease(t, holder)
	writeDown(t, slow, late...)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND attempt = 3 AND lost_attempts = 0 AND lease_id = $1", holder.lease)
	// When it was leased its third try was its first that counted; the wait is the one after a third.
	writeDown(t, holder, now)
	b.until(t, 1, `SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND lease_id IS NULL AND next_attempt_at = relay_at
		AND next_attempt_at > now() + interval '19 minutes'`)
}

// TestManyTriesThatCameLateHoldUpNothing: a wait for so many tries would be longer than time is.
func TestManyTriesThatCameLateHoldUpNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	slow, holder := b.worker(t), b.worker(t)
	holder.cfg.RetryBase = defaultRetryBase
	var late []result
	for range maxLost / 2 {
		late = append(late, b.lease(t, slow))
	}
	now := b.lease(t, holder)
	writeDown(t, slow, late...)
	writeDown(t, holder, now)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND lost_attempts = 0 AND attempt = $1", maxLost/2+1)
}

func TestASuccessThatCameLateEndsItsDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	slow, holder := b.worker(t), b.worker(t)
	late, now := b.lease(t, slow), b.lease(t, holder)
	late.outcome = outcome{status: 204}
	writeDown(t, slow, late)
	const arrived = `SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND last_status = 204 AND last_failure = ''
		AND lease_id IS NULL AND finished_at IS NOT NULL`
	b.until(t, 1, arrived)
	writeDown(t, holder, now)
	b.until(t, 1, arrived)
	if got := b.failures(t, now.row.ID); !slices.Equal(got, []string{"", "status"}) {
		t.Errorf("the log tells of %q", got)
	}
}

// TestTriesThatCameLateAreTheLastOnesToo has an outcome come late of a delivery whose last try is under way, or was made:
// it ends as its last try did, not as lost with a worker, and at once.
func TestTriesThatCameLateAreTheLastOnesToo(t *testing.T) {
	t.Parallel()
	for name, holderFirst := range map[string]bool{"while another has it": false, "when another has tried it": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
			b.fill(t, endpoint.ID, 1)
			testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET attempt = $1", maxAttempts-2)
			slow, holder := b.worker(t), b.worker(t)
			late, last := b.lease(t, slow), b.lease(t, holder)
			if holderFirst {
				writeDown(t, holder, last)
				b.until(t, 1, inState, "pending")
				writeDown(t, slow, late)
			} else {
				writeDown(t, slow, late)
				writeDown(t, holder, last)
			}
			b.until(t, 1, `SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND attempt = $1 AND lost_attempts = 0
				AND last_failure = 'status' AND last_status = 502 AND finished_at IS NOT NULL`, maxAttempts)
		})
	}
}

// TestASuccessIsNotedThoughSomebodyHeldTheEndpoint: else failures to come could disable it.
func TestASuccessIsNotedThoughSomebodyHeldTheEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now() - interval '4 days'")
	w := b.worker(t)
	tx := testkit.Begin(t, b.pool, "SELECT FROM webhook_endpoints FOR UPDATE")
	row := webhooksdb.LeaseRow{EndpointID: endpoint.ID}
	w.noteHealth(t.Context(), []result{{row: row, outcome: outcome{status: 200}}})
	testkit.Release(t, tx)
	failed := result{row: row, outcome: outcome{status: 500, failure: "status"}}
	w.noteHealth(t.Context(), []result{failed})
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE failing_since IS NULL AND last_success_at IS NOT NULL AND last_status = 200")
	w.noteHealth(t.Context(), []result{failed})
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE failing_since > now() - interval '1 hour' AND last_status = 500")
}
