package delivery

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stripe/stripe-go/v83/webhook"

	"examprep.dev/api/client"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// patience bounds every wait of these tests; nothing is asserted of how long anything takes.
const patience = 30 * time.Second

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// testKeys is base64 of 0123456789abcdef, twice.
const testKeys = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func testKeyring(t testing.TB) *webhooks.Keyring {
	t.Helper()
	ring, err := webhooks.ParseKeyring(testKeys)
	check.NoError(t, err)
	return ring
}

// bench is a database, a Redis prefix and what works on them.
type bench struct {
	pool       *pgxpool.Pool
	redis      redis.UniversalClient
	prefix     string
	keyring    *webhooks.Keyring
	endpoints  *webhooks.Endpoints
	managed    *webhooks.Managed
	deliveries *webhooks.Deliveries
	notifier   *webhooks.Notifier
}

func newBench(t testing.TB) *bench {
	t.Helper()
	client, prefix := testkit.Redis(t)
	b := &bench{pool: testkit.Database(t, SessionSettings()), redis: client, prefix: prefix, keyring: testKeyring(t)}
	policy := webhooks.NewAddressPolicy(loopback)
	b.endpoints, b.managed = webhooks.NewEndpoints(b.pool, b.keyring, policy), webhooks.NewManaged(b.pool, b.keyring, policy)
	b.notifier = webhooks.NewNotifier(b.redis, b.prefix, slog.New(slog.DiscardHandler))
	b.deliveries = webhooks.NewDeliveries(b.pool, func(endpoint uuid.UUID) { b.notifier.Notify(endpoint) })
	testkit.Run(t, b.notifier.Run)
	return b
}

func (b *bench) worker(t testing.TB, receivers ...*testkit.Receiver) *Worker {
	t.Helper()
	return b.workerOf(t, b.config(t, receivers...), b.pool, b.keyring)
}

// config returns the settings of a worker for some receivers. It waits for them for longer than the test, and for PostgreSQL as
// long as the test does: if PostgreSQL leases deliveries for a worker that has given up, they wait until their lease expires.
func (b *bench) config(t testing.TB, receivers ...*testkit.Receiver) Config {
	t.Helper()
	var authorities strings.Builder
	for _, r := range receivers {
		authorities.Write(r.CAPEM())
	}
	return Config{
		Prefix: b.prefix, AllowedRanges: loopback, CAPEM: []byte(authorities.String()), Timeout: 4 * patience,
		RetryDelays: from(time.Millisecond), SweepInterval: 50 * time.Millisecond, LeaseGrace: patience,
		StatementTimeout: patience, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// concurrentWorker returns a worker that sends so many deliveries at once.
func (b *bench) concurrentWorker(t testing.TB, concurrency int, receivers ...*testkit.Receiver) *Worker {
	t.Helper()
	cfg := b.config(t, receivers...)
	cfg.Concurrency = concurrency
	return b.workerOf(t, cfg, b.pool, b.keyring)
}

// from returns the schedule with another first wait.
func from(first time.Duration) []time.Duration {
	delays := RetryDelays()
	for i, d := range delays {
		delays[i] = time.Duration(float64(d) * first.Seconds() / RetryDelays()[0].Seconds())
	}
	return delays
}

func (b *bench) workerOf(t testing.TB, cfg Config, pool *pgxpool.Pool, keyring *webhooks.Keyring) *Worker {
	t.Helper()
	w, err := New(cfg, pool, b.redis, keyring)
	check.NoError(t, err)
	w.dispatcher.sender.strict = w.dispatcher.sender.allowing // receivers are at loopback addresses, also those of developers
	return w
}

func (b *bench) endpoint(t testing.TB, url string) (webhooks.ManagedEndpoint, webhooks.Endpoint) {
	t.Helper()
	want := webhooks.ManagedEndpoint{
		Owner: "test/ns/" + uuid.NewString(), URL: url, Events: webhooks.Kinds(), Secret: webhooks.NewSecret(),
	}
	endpoint, err := b.managed.Apply(t.Context(), want)
	check.NoError(t, err)
	return want, endpoint
}

// happen records an event of no account.
func (b *bench) happen(t *testing.T, n int) webhooks.Event {
	t.Helper()
	event, err := webhooks.NewEvent(webhooks.KindContentUpdated, uuid.NullUUID{}, time.Now(), webhooks.ContentUpdated{
		ExamKey: fmt.Sprintf("exam-%d", n), Changes: []string{"papers"}, PaperIDs: []string{}, ContentVersion: int64(n), UpdatedAt: time.Now(),
	})
	check.NoError(t, err)
	b.record(t, event)
	return event
}

// record records an event as every caller does: through the SQL function, then a notification.
func (b *bench) record(t *testing.T, event webhooks.Event) {
	t.Helper()
	b.notifier.Notify(testkit.Get[[]uuid.UUID](t, b.pool, "SELECT webhook_record_event($1, $2, $3, $4)",
		event.ID, string(event.Kind), event.Account, event.Body)...)
}

const inState = "SELECT count(*) FROM webhook_deliveries WHERE state = $1"

func TestAnEventArrivesSignedAndVerifies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	want, _ := b.endpoint(t, r.URL+"/hook?x=1")
	testkit.Run(t, b.worker(t, r).Run)
	event := b.happen(t, 1)
	got := r.Next(t)
	if !bytes.Equal(got.Body, event.Body) {
		t.Errorf("body %s, want %s", got.Body, event.Body)
	}
	if id := got.Header.Get("Webhook-Id"); id != event.ID.String() {
		t.Errorf("webhook-id %q, want %s", id, event.ID)
	}
	header := got.Header.Get(webhooks.SignatureHeader)
	if err := client.Verify(header, got.Body, want.Secret, time.Now(), client.Tolerance); err != nil {
		t.Error(err)
	}
	if err := webhook.ValidatePayloadWithTolerance(got.Body, header, want.Secret, client.Tolerance); err != nil {
		t.Errorf("stripe-go: %v", err)
	}
	if err := webhook.ValidatePayloadWithTolerance(append(got.Body, ' '), header, want.Secret, client.Tolerance); err == nil {
		t.Error("stripe-go believes a changed body")
	}
	b.until(t, 1, inState, "delivered")
}

func TestAFailureIsRetriedWithTheSameBytesAndAFreshSignature(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	want, _ := b.endpoint(t, r.URL)
	testkit.Run(t, b.worker(t, r).Run)
	event := b.happen(t, 1)
	for range 3 {
		got := r.Next(t)
		if !bytes.Equal(got.Body, event.Body) {
			t.Errorf("body %s, want %s", got.Body, event.Body)
		}
		if err := client.Verify(got.Header.Get(webhooks.SignatureHeader), got.Body, want.Secret, time.Now(), client.Tolerance); err != nil {
			t.Error(err)
		}
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered' AND attempt = 3")
}

func TestWhatIsNoSuccessIsTriedSixTimesAndGivenUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(n int, w http.ResponseWriter, r *http.Request){
		"server error": func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"redirect": func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/elsewhere", http.StatusFound)
		},
		"connection cut": func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := testkit.StartReceiver(t, answer)
			b.endpoint(t, r.URL)
			testkit.Run(t, b.worker(t, r).Run)
			b.happen(t, 1)
			b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND attempt = 6")
			if n := len(r.Arrived); n != 6 {
				t.Errorf("%d tries, want 6", n)
			}
		})
	}
}

func TestAReceiverThatIsGoneIsDisabledAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	_, endpoint := b.endpoint(t, r.URL)
	testkit.Run(t, b.worker(t, r).Run)
	b.happen(t, 1)
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'disabled'", endpoint.ID)
	b.happen(t, 2)
	b.until(t, 0, inState, "pending")
	if n := len(r.Arrived); n != 1 {
		t.Errorf("%d tries, want 1", n)
	}
}

func TestNothingIsLostWhenRedisForgets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	b.endpoint(t, r.URL)
	for range 2 {
		testkit.Run(t, b.worker(t, r).Run)
	}
	const events = 300
	for n := range events {
		b.happen(t, n)
		if n%50 == 25 {
			check.NoError(t, b.redis.Del(t.Context(), webhooks.StreamName(b.prefix)).Err())
		}
	}
	b.until(t, events, inState, "delivered")
}

func TestAWorkerThatDiesMidDeliveryIsReplaced(t *testing.T) {
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

func TestAnOutcomeOfAnOldLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]string{
		"delivered by another worker":      "UPDATE webhook_deliveries SET attempt = 2, lease_id = NULL, state = 'delivered'",
		"leased by another, same attempt":  "UPDATE webhook_deliveries SET lease_id = gen_random_uuid()",
		"leased by the same, next attempt": "UPDATE webhook_deliveries SET attempt = attempt + 1",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := testkit.StartReceiver(t, nil)
			b.endpoint(t, r.URL)
			w := b.worker(t, r)
			entered, release := make(chan struct{}), make(chan struct{})
			r.Answer = func(n int, _ http.ResponseWriter, _ *http.Request) {
				if n == 1 {
					close(entered)
					<-release
				}
			}
			stop := testkit.Run(t, w.Run)
			b.happen(t, 1)
			<-entered
			row := func() string {
				t.Helper()
				return testkit.Get[string](t, b.pool, "SELECT d::text FROM webhook_deliveries d")
			}
			testkit.Exec(t, b.pool, meanwhile)
			before := row()
			close(release)
			stop()
			if after := row(); after != before {
				t.Errorf("changed from %s to %s", before, after)
			}
		})
	}
}

func TestADeletedOrSuspendedEndpointGetsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	deleted, _ := b.endpoint(t, r.URL)
	suspended, _ := b.endpoint(t, r.URL)
	b.happen(t, 1)
	check.NoError(t, b.managed.Delete(t.Context(), deleted.Owner))
	suspended.Suspend = true
	if _, err := b.managed.Apply(t.Context(), suspended); err != nil {
		t.Fatal(err)
	}
	b.happen(t, 2)
	// One more as if its event had been written while the endpoint was being deleted.
	testkit.Exec(t, b.pool, `INSERT INTO webhook_deliveries (id, event_id, endpoint_id)
		SELECT gen_random_uuid(), id, gen_random_uuid() FROM webhook_events LIMIT 1`)
	testkit.Run(t, b.worker(t, r).Run)
	b.until(t, 0, inState, "pending")
	if n := len(r.Arrived); n != 0 {
		t.Errorf("%d deliveries, want none", n)
	}
	suspended.Suspend = false
	if _, err := b.managed.Apply(t.Context(), suspended); err != nil {
		t.Fatal(err)
	}
	event := b.happen(t, 3)
	if got := r.Next(t); got.Header.Get("Webhook-Id") != event.ID.String() {
		t.Error("what happened while suspended was delivered later")
	}
}

func TestAHangingReceiverDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	hanging := testkit.StartReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	healthy := testkit.StartReceiver(t, nil)
	b.endpoint(t, hanging.URL)
	b.endpoint(t, healthy.URL)
	testkit.Run(t, b.worker(t, hanging, healthy).Run)
	const events = 100
	for n := range events {
		b.happen(t, n)
	}
	for range events {
		healthy.Next(t) // while every try at the other one still hangs
	}
	testkit.Eventually(t, "a try hangs", func() bool { return len(hanging.Arrived) > 0 })
	if n := len(hanging.Arrived); n > firstWindow {
		t.Errorf("%d tries hang, want at most %d: the window bounds them", n, firstWindow)
	}
}

func TestAnEndlessAnswerIsReadOnlySoFar(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	written := make(chan int64, 1)
	r := testkit.StartReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		var total int64
		defer func() { written <- total }()
		for total < 1<<30 {
			n, err := w.Write(make([]byte, 1<<20))
			total += int64(n)
			if err != nil {
				return
			}
		}
	})
	b.endpoint(t, r.URL)
	testkit.Run(t, b.worker(t, r).Run)
	b.happen(t, 1)
	b.until(t, 1, inState, "delivered")
	select {
	case total := <-written:
		if total > 64<<20 {
			t.Errorf("%d bytes were taken", total)
		}
	case <-time.After(patience):
		t.Error("the connection was not closed")
	}
}

func TestARotatedSecretSignsBesideTheOldOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	want, _ := b.endpoint(t, r.URL)
	testkit.Run(t, b.worker(t, r).Run)
	b.happen(t, 1)
	r.Next(t)
	old := want.Secret
	want.Secret = webhooks.NewSecret()
	if _, err := b.managed.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	b.happen(t, 2)
	got := r.Next(t)
	for _, secret := range []string{old, want.Secret} {
		if err := client.Verify(got.Header.Get(webhooks.SignatureHeader), got.Body, secret, time.Now(), client.Tolerance); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(got.Header.Get(webhooks.SignatureHeader), "v1="); n != 2 {
		t.Errorf("%d signatures, want 2", n)
	}
}
