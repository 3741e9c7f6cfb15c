package delivery

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// maxAttempts is the first attempt and its retries.
const maxAttempts = 6

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// testKeys is base64 of 0123456789abcdef, twice.
const testKeys = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func testKeyring(t testing.TB) *webhooks.Keyring {
	t.Helper()
	ring, err := webhooks.ParseKeyring(testKeys)
	check.NoError(t, err)
	return ring
}

// bench is a database and a Redis prefix, with what workers share.
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
	return newBenchOn(t, client, prefix)
}

func newBenchOn(t testing.TB, client redis.UniversalClient, prefix string) *bench {
	t.Helper()
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

// config returns the settings of a worker for some receivers. None of its time limits acts in a test that passes.
func (b *bench) config(t testing.TB, receivers ...*testkit.Receiver) Config {
	t.Helper()
	var authorities strings.Builder
	for _, r := range receivers {
		authorities.Write(r.CAPEM())
	}
	return Config{
		Prefix: b.prefix, Allowed: Ranges{Declared: loopback, Registered: loopback}, CAPEM: []byte(authorities.String()),
		Timeout: testkit.Patience, LeaseGrace: testkit.Patience, StatementTimeout: testkit.Patience, SweepTimeout: testkit.Patience,
		RetentionTimeout: testkit.Patience, RetryDelays: delaysFrom(time.Millisecond), SweepInterval: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// delaysFrom returns the schedule of retries with another first wait.
func delaysFrom(first time.Duration) []time.Duration {
	delays := RetryDelays()
	for i, d := range delays {
		delays[i] = time.Duration(float64(d) * first.Seconds() / RetryDelays()[0].Seconds())
	}
	return delays
}

// concurrentWorker returns a worker that makes at most so many attempts at once.
func (b *bench) concurrentWorker(t testing.TB, concurrency int, receivers ...*testkit.Receiver) *Worker {
	t.Helper()
	cfg := b.config(t, receivers...)
	cfg.Concurrency = concurrency
	return b.workerOf(t, cfg, b.pool, b.keyring)
}

func (b *bench) workerOf(t testing.TB, cfg Config, pool *pgxpool.Pool, keyring *webhooks.Keyring) *Worker {
	t.Helper()
	w, err := New(cfg, pool, b.redis, keyring)
	check.NoError(t, err)
	w.dispatcher.unreadablePause = time.Hour // longer than any test
	return w
}

// holder makes a receiver hold requests until release is called or the test ends.
type holder struct {
	t testing.TB
	// entered has a value for each request that is held or was held.
	entered  chan struct{}
	released chan struct{}
	release  func()
}

func newHolder(t testing.TB) *holder {
	t.Helper()
	h := &holder{t: t, entered: make(chan struct{}, 4096), released: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.released) })
	return h
}

// first returns the answer of a receiver that holds the first n requests and answers all with 200.
func (h *holder) first(n int) func(int, http.ResponseWriter, *http.Request) {
	return func(number int, _ http.ResponseWriter, _ *http.Request) {
		if number <= n {
			h.hold()
		}
	}
}

// all is the answer of a receiver that holds every request.
func (h *holder) all(int, http.ResponseWriter, *http.Request) { h.hold() }

func (h *holder) hold() {
	h.entered <- struct{}{}
	select {
	case <-h.released:
	case <-h.t.Context().Done(): // before the worker and the receiver are stopped, which wait for the request
	}
}

// await waits until one more request is held.
func (h *holder) await(t testing.TB) {
	t.Helper()
	testkit.Receive(t, h.entered, "the receiver holds a request")
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

func (b *bench) account(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	testkit.Exec(t, b.pool, "INSERT INTO accounts (id, name) VALUES ($1, $2)", id, id.String())
	return id
}

// registered returns a new account and its endpoint.
func (b *bench) registered(t *testing.T, url string) (account uuid.UUID, endpoint webhooks.Endpoint) {
	t.Helper()
	account = b.account(t)
	endpoint, _, err := b.endpoints.Register(t.Context(), webhooks.Registration{AccountID: account, URL: url, Events: webhooks.Kinds()})
	check.NoError(t, err)
	return account, endpoint
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

// scoredBy records an event of an account.
func (b *bench) scoredBy(t *testing.T, account uuid.UUID) webhooks.Event {
	t.Helper()
	event, err := webhooks.NewEvent(webhooks.KindScored, uuid.NullUUID{UUID: account, Valid: true}, time.Now(), webhooks.AttemptScored{AttemptID: uuid.NewString()})
	check.NoError(t, err)
	b.record(t, event)
	return event
}

// record records an event as every caller does: by the SQL function, then by a notification.
func (b *bench) record(t *testing.T, event webhooks.Event) {
	t.Helper()
	b.notifier.Notify(testkit.Get[[]uuid.UUID](t, b.pool, "SELECT webhook_record_event($1, $2, $3, $4)",
		event.ID, string(event.Kind), event.Account, event.Body)...)
}

// fill makes n events for one endpoint, due at once, and notifies the workers.
func (b *bench) fill(t *testing.T, endpoint uuid.UUID, n int) {
	t.Helper()
	b.insert(t, endpoint, n)
	b.notifier.Notify(endpoint)
}

// insert makes n events for one endpoint, due at once, in one statement. A sweep must find them.
func (b *bench) insert(t *testing.T, endpoint uuid.UUID, n int) {
	t.Helper()
	event, err := webhooks.NewEvent(webhooks.KindContentUpdated, uuid.NullUUID{}, time.Now(), webhooks.ContentUpdated{ExamKey: "exam"})
	check.NoError(t, err)
	testkit.Exec(t, b.pool, `WITH made AS (
			INSERT INTO webhook_events (id, kind, body) SELECT uuidv7(), $2, $3 FROM generate_series(1, $1::int) RETURNING id)
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event) SELECT uuidv7(), id, $4, $2 FROM made`,
		n, string(event.Kind), event.Body, endpoint)
}

// inState counts the deliveries in a state.
const inState = "SELECT count(*) FROM webhook_deliveries WHERE state = $1"

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

// lease leases all due deliveries for a lease that ends at once.
func (b *bench) lease(t *testing.T, lease uuid.UUID) []webhooksdb.LeaseRow {
	t.Helper()
	endpoints := testkit.Get[[]uuid.UUID](t, b.pool, "SELECT array_agg(DISTINCT endpoint_id) FROM webhook_deliveries")
	rows, err := webhooksdb.New(b.pool).Lease(t.Context(), webhooksdb.LeaseParams{
		Endpoints: endpoints, Rooms: slices.Repeat([]int32{100}, len(endpoints)), Sinces: make([]time.Time, len(endpoints)), LeaseID: lease, Skip: []uuid.UUID{},
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

// ids returns the ids of all deliveries, oldest first.
func (b *bench) ids(t *testing.T) []uuid.UUID {
	t.Helper()
	return testkit.Get[[]uuid.UUID](t, b.pool, "SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM webhook_deliveries")
}

// failures returns the classes of failure of a delivery's attempts, in their order.
func (b *bench) failures(t *testing.T, delivery uuid.UUID) []string {
	t.Helper()
	return testkit.Get[[]string](t, b.pool, "SELECT coalesce(array_agg(failure ORDER BY attempt), '{}') FROM webhook_attempts WHERE delivery_id = $1",
		delivery)
}
