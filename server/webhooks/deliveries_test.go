package webhooks

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestNotifierAddsEachEndpointOnce(t *testing.T) {
	t.Parallel()
	client, prefix := testkit.Redis(t)
	notifier := NewNotifier(client, prefix, slog.New(slog.DiscardHandler))
	first, second := uuid.New(), uuid.New()
	notifier.timeout = testkit.Patience
	notifier.Notify(first, second)
	notifier.Notify(first)
	(*Notifier)(nil).Notify(first)
	stop := testkit.Run(t, notifier.Run)
	stop()
	entries, err := client.XRange(t.Context(), StreamName(prefix), "-", "+").Result()
	check.NoError(t, err)
	var got []string
	for _, entry := range entries {
		text, _ := entry.Values[WakeUpField].(string)
		id, err := uuid.FromBytes([]byte(text))
		check.NoError(t, err)
		got = append(got, id.String())
	}
	want := []string{first.String(), second.String()}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%v are on the stream, want %v", got, want)
	}
}

func TestAMoveDoesNotEnableAReceiverThatFailedTooLong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const reasonFailing = "no delivery succeeded for 5 days"
	want, endpoint := b.endpoint(t, "https://receiver.example.com")
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET status = $1, disabled_reason = $2 WHERE id = $3",
		StatusDisabled, reasonFailing, endpoint.ID)
	want.Account = uuid.NullUUID{UUID: b.account(t), Valid: true}
	moved, err := b.managed.Apply(t.Context(), want)
	if err != nil || moved.AccountID != want.Account || moved.Status != StatusDisabled || moved.DisabledReason != reasonFailing {
		t.Errorf("moved to %+v, %v", moved, err)
	}
}

// An account sees no delivery of another account's event, however it came to its endpoint.
func TestDeliveriesOfAnotherAccountsEventsAreNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ada, bob := b.account(t), b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: ada, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	b.scoredBy(t, ada)
	b.happen(t, 1)
	all, err := b.deliveries.List(t.Context(), ada, made.ID, DeliveryFilter{}, 10)
	if err != nil || len(all.Deliveries) != 2 {
		t.Fatalf("the owner sees %+v, %v", all, err)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET account_id = $1", bob)
	page, err := b.deliveries.List(t.Context(), bob, made.ID, DeliveryFilter{}, 10)
	if err != nil || len(page.Deliveries) != 1 || page.Deliveries[0].Kind != KindContentUpdated {
		t.Errorf("another sees %+v, %v, want what is everyone's", page, err)
	}
	i := slices.IndexFunc(all.Deliveries, func(d Delivery) bool { return d.Kind == KindScored })
	adas := all.Deliveries[i].ID
	if _, err := b.deliveries.Redeliver(t.Context(), bob, made.ID, adas); !is[*NotFoundError](err) {
		t.Errorf("resent: got %v, want a NotFoundError", err)
	}
	if _, err := b.deliveries.List(t.Context(), bob, made.ID, DeliveryFilter{Before: uuid.NullUUID{UUID: adas, Valid: true}}, 10); !is[*ValidationError](err) {
		t.Errorf("as a cursor: got %v, want a ValidationError", err)
	}
}

// TestIDOfATestEventIsByTheDatabasesClock: the id decides which partition holds the event. The database's clock is a day behind that
// of the process.
func TestIDOfATestEventIsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	testkit.Exec(t, b.pool, "CREATE SCHEMA clock")
	testkit.Exec(t, b.pool, "CREATE FUNCTION clock.uuidv7() RETURNS uuid LANGUAGE sql AS 'SELECT public.uuidv7_at(now() - interval ''1 day'')'")
	behind := NewDeliveries(testkit.Open(t, b.pool.Config().ConnString()+"&search_path=clock,public,pg_catalog"), func(uuid.UUID) {})
	_, err = behind.Test(t.Context(), account, made.ID, time.Now())
	check.NoError(t, err)
	const byTheDatabase = "SELECT count(*) FROM webhook_events WHERE id < uuidv7_at(now() - interval '12 hours')"
	check.Equal(t, testkit.Get[int](t, b.pool, byTheDatabase), 1, "events with an id by the database's clock")
	const named = "SELECT count(*) FROM webhook_events WHERE convert_from(body, 'UTF8')::jsonb->>'id' = id::text"
	check.Equal(t, testkit.Get[int](t, b.pool, named), 1, "events with their id in the body")
}

func TestNothingIsSentToADisabledEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	b.scoredBy(t, account)
	page, err := b.deliveries.List(t.Context(), account, made.ID, DeliveryFilter{}, 1)
	if err != nil || len(page.Deliveries) != 1 {
		t.Fatal(page, err)
	}
	if _, err := b.endpoints.Update(t.Context(), account, made.ID, Change{Enabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.deliveries.Test(t.Context(), account, made.ID, time.Now()); !is[*DisabledError](err) {
		t.Errorf("test: got %v, want a DisabledError", err)
	}
	if _, err := b.deliveries.Redeliver(t.Context(), account, made.ID, page.Deliveries[0].ID); !is[*DisabledError](err) {
		t.Errorf("redeliver: got %v, want a DisabledError", err)
	}
	if _, err := b.deliveries.Redeliver(t.Context(), account, made.ID, uuid.New()); !is[*NotFoundError](err) {
		t.Errorf("redeliver what is not there: got %v, want a NotFoundError", err)
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries")
	b.until(t, 1, "SELECT count(*) FROM webhook_events")
}

// made are the ids of all deliveries, oldest first.
func (b *bench) made(t *testing.T) []uuid.UUID {
	t.Helper()
	return testkit.Get[[]uuid.UUID](t, b.pool, "SELECT array_agg(id ORDER BY created_at, id) FROM webhook_deliveries")
}

// end brings a delivery to a state, as of some time ago; pending deliveries have no end.
func (b *bench) end(t *testing.T, delivery uuid.UUID, state string, ago time.Duration) {
	t.Helper()
	testkit.Exec(t, b.pool, `UPDATE webhook_deliveries
		SET state = $2, finished_at = CASE WHEN $2 <> 'pending' THEN now() - make_interval(secs => $3::float8) END WHERE id = $1`,
		delivery, state, ago.Seconds())
}

func (b *bench) recover(t *testing.T, account, endpoint uuid.UUID, ago time.Duration) Recovery {
	t.Helper()
	recovery, err := b.deliveries.Recover(t.Context(), account, endpoint, time.Now().Add(-ago))
	check.NoError(t, err)
	return recovery
}

// A delivery of an event in what a recovery finds: the state it came to, and how long ago.
type ended struct {
	state string
	ago   time.Duration
}

// The first delivery of an event is the event's own, each further one a redelivery of it, requested after the one before it has ended.
func TestARecoverySendsWhatDidNotArrive(t *testing.T) {
	t.Parallel()
	const before, since, after = 3 * time.Hour, 2 * time.Hour, time.Hour
	for name, c := range map[string]struct {
		deliveries []ended
		sent       bool
	}{
		"failed":                                     {[]ended{{"failed", after}}, true},
		"cancelled":                                  {[]ended{{"cancelled", after}}, true},
		"failed before":                              {[]ended{{"failed", before}}, false},
		"delivered":                                  {[]ended{{"delivered", after}}, false},
		"pending":                                    {[]ended{{"pending", 0}}, false},
		"failed, and pending again":                  {[]ended{{"failed", after}, {"pending", 0}}, false},
		"failed, and delivered again":                {[]ended{{"failed", after}, {"delivered", after}}, false},
		"failed twice":                               {[]ended{{"failed", after}, {"failed", after}}, true},
		"failed before, and again since":             {[]ended{{"failed", before}, {"cancelled", after}}, true},
		"delivered before, and failed again":         {[]ended{{"delivered", before}, {"failed", after}}, true},
		"delivered since, and failed again":          {[]ended{{"delivered", after}, {"failed", after}}, false},
		"delivered since, and failed twice":          {[]ended{{"delivered", after}, {"failed", after}, {"failed", after}}, false},
		"failed, failed again, and delivered":        {[]ended{{"failed", after}, {"failed", after}, {"delivered", after}}, false},
		"failed, delivered, and failed again":        {[]ended{{"failed", after}, {"delivered", after}, {"failed", after}}, false},
		"failed, delivered before, and failed again": {[]ended{{"failed", after}, {"delivered", before}, {"failed", after}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			account, endpoint := b.registered(t, "https://receiver.example.com/")
			event := b.scoredBy(t, account)
			first := b.made(t)[0]
			for i, d := range c.deliveries {
				last := first
				if i > 0 {
					last = b.redeliver(t, account, endpoint.ID, first)
				}
				b.end(t, last, d.state, d.ago)
			}
			want := 0
			if c.sent {
				want = 1
			}
			if got := b.recover(t, account, endpoint.ID, since); got != (Recovery{Deliveries: want}) {
				t.Errorf("recovered %+v, want %d", got, want)
			}
			b.until(t, len(c.deliveries)+want, "SELECT count(*) FROM webhook_deliveries WHERE event_id = $1", event.ID)
			if got := b.recover(t, account, endpoint.ID, since); got != (Recovery{}) {
				t.Errorf("recovered again: %+v", got)
			}
		})
	}
}

func TestARecoveryThatFailsIsRecoveredAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	b.scoredBy(t, account)
	for round := range 3 {
		ids := b.made(t)
		b.end(t, ids[len(ids)-1], "failed", time.Minute)
		if got := b.recover(t, account, endpoint.ID, time.Hour); got.Deliveries != 1 {
			t.Errorf("round %d: recovered %+v, want 1", round, got)
		}
	}
	for range 2 {
		ids := b.made(t)
		b.end(t, ids[len(ids)-1], "failed", time.Minute)
		b.redeliver(t, account, endpoint.ID, ids[0])
	}
	ids := b.made(t)
	b.end(t, ids[len(ids)-1], "failed", time.Minute)
	if got := b.recover(t, account, endpoint.ID, time.Hour); got.Deliveries != 1 {
		t.Errorf("of one event that failed five times %+v is sent, want 1", got)
	}
}

// missed leaves n events of an account whose delivery to the endpoint failed a minute ago.
func (b *bench) missed(t *testing.T, account, endpoint uuid.UUID, n int) {
	t.Helper()
	testkit.Exec(t, b.pool, `WITH event AS (
			INSERT INTO webhook_events (id, kind, account_id, body) SELECT uuidv7(), $1, $2, '{}' FROM generate_series(1, $4::int) RETURNING id)
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event, state, finished_at)
		SELECT uuidv7(), id, $3, $1, 'failed', now() - interval '1 minute' FROM event`, string(KindScored), account, endpoint, n)
}

func TestRecoveriesAtOnceSendNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	const missed = 2*MaxRecovery + 500
	b.missed(t, account, endpoint.ID, missed)
	since := time.Now().Add(-time.Hour)
	found := make([]Recovery, 6)
	var calls sync.WaitGroup
	for i := range found {
		calls.Go(func() {
			var err error
			if found[i], err = b.deliveries.Recover(t.Context(), account, endpoint.ID, since); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	slices.SortFunc(found, func(a, b Recovery) int { return b.Deliveries - a.Deliveries })
	if want := []Recovery{{MaxRecovery, true}, {MaxRecovery, true}, {500, false}, {}, {}, {}}; !slices.Equal(found, want) {
		t.Errorf("recovered %+v, want %+v", found, want)
	}
	b.until(t, missed, inState, "pending")
	b.until(t, missed, "SELECT count(DISTINCT event_id) FROM webhook_deliveries WHERE state = 'pending'")
}

func TestARecoverySeesNothingOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ada, adas := b.registered(t, "https://receiver.example.com/")
	bob, bobs := b.registered(t, "https://receiver.example.com/")
	b.missed(t, ada, adas.ID, 1)
	b.missed(t, bob, adas.ID, 1) // as if the endpoint had been bob's
	b.missed(t, bob, bobs.ID, 1)
	if _, err := b.deliveries.Recover(t.Context(), bob, adas.ID, time.Now().Add(-time.Hour)); !is[*NotFoundError](err) {
		t.Errorf("of another's endpoint: got %v, want a NotFoundError", err)
	}
	if got := b.recover(t, ada, adas.ID, time.Hour); got.Deliveries != 1 {
		t.Errorf("recovered %+v, want ada's own", got)
	}
	if got := b.recover(t, ada, adas.ID, time.Hour); got.Deliveries != 0 {
		t.Errorf("recovered again %+v", got)
	}
}

func TestARecoveryIsRefusedWhereItMakesNoSense(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	b.missed(t, account, endpoint.ID, 1)
	for name, since := range map[string]time.Time{
		"to come": time.Now().Add(time.Hour), "long ago": time.Now().Add(-RecoveryWindow - time.Hour), "never": {},
	} {
		_, err := b.deliveries.Recover(t.Context(), account, endpoint.ID, since)
		if invalid, ok := errors.AsType[*ValidationError](err); !ok || invalid.Field != "since" {
			t.Errorf("%s: got %v, want a ValidationError of since", name, err)
		}
	}
	if _, err := b.deliveries.Recover(t.Context(), account, uuid.New(), time.Now().Add(-time.Hour)); !is[*NotFoundError](err) {
		t.Errorf("of no endpoint: got %v, want a NotFoundError", err)
	}
	if _, err := b.endpoints.Update(t.Context(), account, endpoint.ID, Change{Enabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.deliveries.Recover(t.Context(), account, endpoint.ID, time.Now().Add(-time.Hour)); !is[*DisabledError](err) {
		t.Errorf("of a disabled endpoint: got %v, want a DisabledError", err)
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries")
}

func TestADeclaredEndpointIsRecoveredToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	endpoint, err := b.managed.Apply(t.Context(), ManagedEndpoint{
		Owner: "c/ns/n", URL: "https://receiver.example.com/", Events: Kinds(), Secret: NewSecret(),
		Account: uuid.NullUUID{UUID: account, Valid: true},
	})
	check.NoError(t, err)
	b.missed(t, account, endpoint.ID, 1)
	if got := b.recover(t, account, endpoint.ID, time.Hour); got.Deliveries != 1 {
		t.Errorf("recovered %+v, want 1", got)
	}
}
