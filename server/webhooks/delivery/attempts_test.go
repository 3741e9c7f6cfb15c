package delivery

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
)

// maxAttempts is the first attempt and its retries.
const maxAttempts = 6

// lease leases all due deliveries for a lease that ends at once.
func (b *bench) lease(t *testing.T, lease uuid.UUID) []webhooksdb.LeaseRow {
	t.Helper()
	endpoints := testkit.Get[[]uuid.UUID](t, b.pool, "SELECT array_agg(DISTINCT endpoint_id) FROM webhook_deliveries")
	rows, err := webhooksdb.New(b.pool).Lease(t.Context(), webhooksdb.LeaseParams{
		Endpoints: endpoints, Rooms: slices.Repeat([]int32{100}, len(endpoints)), LeaseID: lease, Skip: []uuid.UUID{},
	})
	if err != nil || len(rows) == 0 {
		t.Fatalf("leased %d, error %v", len(rows), err)
	}
	return rows
}

// crash leaves all deliveries as workers do that are killed during so many attempts, one after the other.
func (b *bench) crash(t *testing.T, times int) {
	t.Helper()
	for range times {
		b.lease(t, uuid.New())
	}
}

// ids are those of all deliveries, oldest first.
func (b *bench) ids(t *testing.T) []uuid.UUID {
	t.Helper()
	return testkit.Get[[]uuid.UUID](t, b.pool, "SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM webhook_deliveries")
}

// failures are the classes of failure of a delivery's attempts, in their order.
func (b *bench) failures(t *testing.T, delivery uuid.UUID) []string {
	t.Helper()
	return testkit.Get[[]string](t, b.pool, "SELECT coalesce(array_agg(failure ORDER BY attempt), '{}') FROM webhook_attempts WHERE delivery_id = $1",
		delivery)
}

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
		result: result{status: 502, failure: "status", response: "no"},
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
func attemptedAt(endpoint uuid.UUID, r result) []completion {
	return []completion{{row: webhooksdb.LeaseRow{EndpointID: endpoint}, attempted: true, result: r}}
}

// TestHealthKeepsASuccessWhileTheEndpointIsLocked: else later failures could disable it.
func TestHealthKeepsASuccessWhileTheEndpointIsLocked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now() - interval '4 days'")
	health := b.worker(t).health
	write := func(r result) {
		t.Helper()
		health.record(attemptedAt(endpoint.ID, r))
		if err := health.flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	tx := testkit.Begin(t, b.pool, "SELECT FROM webhook_endpoints FOR UPDATE")
	write(result{status: 200})
	testkit.Release(t, tx)
	write(result{status: 500, failure: "status"})
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE failing_since IS NULL AND last_success_at IS NOT NULL AND last_status = 200")
	write(result{status: 500, failure: "status"})
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE failing_since > now() - interval '1 hour' AND last_status = 500")
}
