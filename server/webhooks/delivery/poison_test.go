package delivery

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// load is how many other deliveries there are than the one that cannot be handled.
const load = 200

func TestADeliveryThatCannotBeLeasedCostsThatDeliveryOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	_, other := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, load)
	b.fill(t, other.ID, load)
	poisoned := b.ids(t)[0]
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 hour' WHERE id = $1", poisoned)
	testkit.Exec(t, b.pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF NEW.id = '`+poisoned.String()+`' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`)
	testkit.Exec(t, b.pool, "CREATE TRIGGER refuse BEFORE UPDATE ON webhook_deliveries FOR EACH ROW EXECUTE FUNCTION refuse()")
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

func TestAResultThatViolatesAConstraintCostsThatDeliveryOnly(t *testing.T) {
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

func TestASecretThatCannotBeReadCostsItsEndpointOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	_, unreadable := b.endpoint(t, r.URL)
	testkit.Exec(t, b.pool, "UPDATE webhook_secrets SET ciphertext = '\\x00' WHERE endpoint_id = $1", unreadable.ID)
	b.fill(t, unreadable.ID, load)
	b.fill(t, endpoint.ID, load)
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, load, inState, "delivered")
	b.until(t, load, `SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1 AND state = 'pending' AND attempt = 0
		AND lease_id IS NULL AND next_attempt_at > now()`, unreadable.ID)
	if n := len(r.Arrived); n != load {
		t.Errorf("%d requests for %d deliveries", n, load)
	}
}

func TestADeliveryWithoutItsEventIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	b.fill(t, endpoint.ID, 2)
	testkit.Exec(t, b.pool, "DELETE FROM webhook_events WHERE id = (SELECT id FROM webhook_events LIMIT 1)")
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 1, inState, "delivered")
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'cancelled' AND attempt = 0 AND finished_at IS NOT NULL")
}

// panics is a transport that panics.
type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("of a test") }

func TestAPanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 1)
	w := b.worker(t)
	w.dispatcher.sender.allowing.transport = panics{}
	testkit.Run(t, w.Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND attempt = $1 AND last_failure = $2", maxAttempts, failureInternal)
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
		batch[i] = completion{row: row, attempted: true, began: time.Now(), result: result{status: 200}}
	}
	for _, i := range []int{0, 1, 50, 99} {
		batch[i].status = 299
	}
	w.completer.write(t.Context(), batch)
	b.until(t, 96, inState, "delivered")
	b.until(t, 96, "SELECT count(*) FROM webhook_attempts")
	if n := testutil.ToFloat64(w.completer.metrics.dropped); n != 4 {
		t.Errorf("%v results are counted as dropped, want 4", n)
	}
}

// TestAWorkerStopsWithinItsGrace stops one whose receiver hangs and whose PostgreSQL is unreachable.
func TestAWorkerStopsWithinItsGrace(t *testing.T) {
	t.Parallel()
	if grace := (Config{}).withDefaults(); grace.Timeout+grace.LeaseGrace >= 25*time.Second {
		t.Errorf("%s and %s do not fit into --shutdown-grace", grace.Timeout, grace.LeaseGrace)
	}
	b := newBench(t)
	release := make(chan struct{})
	r := testkit.StartReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	_, endpoint := b.endpoint(t, r.URL)
	cfg := b.config(t, r)
	cfg.Timeout, cfg.LeaseGrace = time.Second, time.Second
	stop := testkit.Run(t, b.workerOf(t, cfg, b.pool, b.keyring).Run)
	b.fill(t, endpoint.ID, 1)
	r.Next(t)
	restore := testkit.CutOff(t, b.pool)
	stop() // it returns although neither the receiver nor PostgreSQL does
	restore()
}

func TestTheSweepFindsWhatNoWakeUpReportsAndCancelsWhatIsNotEnabled(t *testing.T) {
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
	check.NoError(t, w.sweeper.sweep(t.Context()))
	marked := w.dispatcher.windows.byID
	if len(marked) != 2 || marked[due.ID] == nil || marked[expired.ID] == nil {
		t.Errorf("%d endpoints are marked, want those that have due rows without a lease", len(marked))
	}
	b.until(t, 6, inState, "cancelled")
	b.until(t, 12, inState, "pending")
}

// TestAllowedRangesAreForDeclaredEndpointsOnly delivers to a loopback address for a declared endpoint first: its connection must not
// be used for the developer's.
func TestAllowedRangesAreForDeclaredEndpointsOnly(t *testing.T) {
	t.Parallel()
	r := testkit.StartReceiver(t, nil)
	s := senderTo(t, r.Server)
	for range 2 {
		for managed, want := range map[bool]string{true: "", false: "refused_address"} {
			got := s.post(t.Context(), post{url: r.URL, managed: managed, eventID: uuid.New(), body: []byte("{}"), secrets: []string{webhooks.NewSecret()}})
			if got.failure != want {
				t.Errorf("managed %v: %+v, want failure %q", managed, got, want)
			}
		}
	}
}
