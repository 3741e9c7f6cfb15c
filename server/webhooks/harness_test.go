package webhooks

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// testKeys is base64 of 0123456789abcdef, twice.
const testKeys = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func testKeyring(t testing.TB) *Keyring {
	t.Helper()
	ring, err := ParseKeyring(testKeys)
	check.NoError(t, err)
	return ring
}

// bench is a database and what works on it. No worker does.
type bench struct {
	pool       *pgxpool.Pool
	keyring    *Keyring
	endpoints  *Endpoints
	managed    *Managed
	deliveries *Deliveries
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{pool: testkit.Database(t), keyring: testKeyring(t)}
	policy := NewAddressPolicy(loopback)
	b.endpoints, b.managed = NewEndpoints(b.pool, b.keyring, policy), NewManaged(b.pool, b.keyring, policy)
	b.deliveries = NewDeliveries(b.pool, func(uuid.UUID) {})
	return b
}

func (b *bench) endpoint(t testing.TB, url string) (ManagedEndpoint, Endpoint) {
	t.Helper()
	want := ManagedEndpoint{
		Owner: "test/ns/" + uuid.NewString(), URL: url, Events: Kinds(), Secret: NewSecret(),
	}
	endpoint, err := b.managed.Apply(t.Context(), want)
	check.NoError(t, err)
	return want, endpoint
}

// happen records an event of no account.
func (b *bench) happen(t *testing.T, n int) Event {
	t.Helper()
	event, err := NewEvent(KindContentUpdated, uuid.NullUUID{}, time.Now(), ContentUpdated{
		ExamKey: fmt.Sprintf("exam-%d", n), Changes: []string{"papers"}, PaperIDs: []string{}, ContentVersion: int64(n), UpdatedAt: time.Now(),
	})
	check.NoError(t, err)
	b.record(t, event)
	return event
}

// record records an event as every caller does, and returns the endpoints that get it.
func (b *bench) record(t *testing.T, event Event) []uuid.UUID {
	t.Helper()
	return testkit.Get[[]uuid.UUID](t, b.pool, "SELECT webhook_record_event($1, $2, $3, $4)",
		event.ID, string(event.Kind), event.Account, event.Body)
}

func (b *bench) account(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	testkit.Exec(t, b.pool, "INSERT INTO accounts (id, name) VALUES ($1, $2)", id, id.String())
	return id
}

// registered returns a new account and its endpoint.
func (b *bench) registered(t *testing.T, url string) (account uuid.UUID, endpoint Endpoint) {
	t.Helper()
	account = b.account(t)
	endpoint, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: url, Events: Kinds()})
	check.NoError(t, err)
	return account, endpoint
}

// scoredBy records an event of an account.
func (b *bench) scoredBy(t *testing.T, account uuid.UUID) Event {
	t.Helper()
	event, err := NewEvent(KindScored, uuid.NullUUID{UUID: account, Valid: true}, time.Now(), AttemptScored{AttemptID: uuid.NewString()})
	check.NoError(t, err)
	b.record(t, event)
	return event
}

// until polls a count until it is want.
func (b *bench) until(t *testing.T, want int, query string, args ...any) {
	t.Helper()
	testkit.Eventually(t, query, func() bool { return testkit.Get[int](t, b.pool, query, args...) == want })
}

const inState = "SELECT count(*) FROM webhook_deliveries WHERE state = $1"

// is reports whether err has a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
