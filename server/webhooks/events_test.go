package webhooks

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestRecordEventReturnsTheEndpointsThatGetIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ada, bob := b.account(t), b.account(t)
	apply := func(account uuid.NullUUID, events ...Kind) uuid.UUID {
		t.Helper()
		endpoint, err := b.managed.Apply(t.Context(), ManagedEndpoint{
			Owner: uuid.NewString(), URL: "https://receiver.example.com/", Events: events, Secret: NewSecret(), Account: account,
		})
		check.NoError(t, err)
		return endpoint.ID
	}
	of := func(account uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: account, Valid: true} }
	everyones, adas, bobs := apply(uuid.NullUUID{}, Kinds()...), apply(of(ada), KindScored), apply(of(bob), Kinds()...)
	for name, c := range map[string]struct {
		kind    Kind
		account uuid.NullUUID
		want    []uuid.UUID
	}{
		"an account's event":                   {KindScored, of(ada), []uuid.UUID{everyones, adas}},
		"a kind that it does not subscribe to": {KindSubmitted, of(ada), []uuid.UUID{everyones}},
		"an event for all accounts":            {KindScored, uuid.NullUUID{}, []uuid.UUID{everyones, adas, bobs}},
	} {
		event, err := NewEvent(c.kind, c.account, time.Now(), AttemptScored{AttemptID: "a"})
		check.NoError(t, err)
		got := b.record(t, event)
		inOrder := func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }
		slices.SortFunc(got, inOrder)
		if slices.SortFunc(c.want, inOrder); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestAnEventOfAWrongClockGetsAnIDOfThePresent: its id decides how long it is kept.
func TestAnEventOfAWrongClockGetsAnIDOfThePresent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	event, err := NewEvent(KindContentUpdated, uuid.NullUUID{}, time.Now(), ContentUpdated{ExamKey: "exam"})
	check.NoError(t, err)
	wrong := event.ID
	wrong[0] ^= 1 // 35 years
	event.Body = []byte(strings.ReplaceAll(string(event.Body), event.ID.String(), wrong.String()))
	event.ID = wrong
	b.record(t, event)
	if n := testkit.Get[int](t, b.pool, `SELECT count(*) FROM webhook_events
		WHERE id >= uuidv7_at(now() - interval '1 hour') AND id < uuidv7_at(now() + interval '1 hour')
			AND convert_from(body, 'UTF8')::json ->> 'id' = id::text AND convert_from(body, 'UTF8')::json ->> 'dedupe_key' = id::text`); n != 1 {
		t.Errorf("%d events of the present, want 1", n)
	}
}

// TestEventsOfOneTransactionAreWrittenTogether: each has its own account, kind, body, trace and clock.
func TestEventsOfOneTransactionAreWrittenTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ada, bob := b.account(t), b.account(t)
	endpoints := map[uuid.UUID]string{}
	for _, e := range []struct {
		name    string
		account uuid.NullUUID
		events  []Kind
	}{
		{"everyone", uuid.NullUUID{}, Kinds()},
		{"ada", uuid.NullUUID{UUID: ada, Valid: true}, Kinds()},
		{"bob", uuid.NullUUID{UUID: bob, Valid: true}, []Kind{KindScored}},
	} {
		endpoint, err := b.managed.Apply(t.Context(), ManagedEndpoint{
			Owner: e.name, URL: "https://receiver.example.com/", Events: e.events, Secret: NewSecret(), Account: e.account,
		})
		check.NoError(t, err)
		endpoints[endpoint.ID] = e.name
	}
	ids := []uuid.UUID{uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())}
	ids[1][0] ^= 1 // 35 years
	bodies := make([][]byte, len(ids))
	for i, id := range ids {
		bodies[i] = fmt.Appendf(nil, `{"id":"%s","n":%d}`, id, i)
	}
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	got := testkit.Get[[]uuid.UUID](t, b.pool, "SELECT webhook_record_events($1, $2, $3, $4, $5)", ids,
		[]string{string(KindScored), string(KindSubmitted), string(KindScored), string(KindContentUpdated)},
		[]uuid.NullUUID{{UUID: ada, Valid: true}, {UUID: bob, Valid: true}, {UUID: bob, Valid: true}, {}}, bodies, []*string{&trace, nil, nil, nil})
	check.Equal(t, len(got), len(endpoints), "endpoints, each once")
	receivers := map[int][]string{}
	var n int
	var endpoint uuid.UUID
	testkit.ForEach(t, b.pool, []any{&n, &endpoint}, func() { receivers[n] = append(receivers[n], endpoints[endpoint]) }, `
		SELECT (convert_from(e.body, 'UTF8')::json ->> 'n')::int, d.endpoint_id FROM webhook_events e JOIN webhook_deliveries d ON d.event_id = e.id
		WHERE convert_from(e.body, 'UTF8')::json ->> 'id' = e.id::text AND d.event = e.kind AND e.id > uuidv7_at(now() - interval '1 day')`)
	for _, names := range receivers {
		slices.Sort(names)
	}
	want := map[int][]string{0: {"ada", "everyone"}, 1: {"everyone"}, 2: {"bob", "everyone"}, 3: {"ada", "everyone"}}
	if !reflect.DeepEqual(receivers, want) {
		t.Errorf("receivers %v, want %v", receivers, want)
	}
	check.Equal(t, testkit.Get[uuid.UUID](t, b.pool, "SELECT id FROM webhook_events WHERE traceparent = $1", trace), ids[0], "the event with a trace")
	none := testkit.Get[[]uuid.UUID](t, b.pool, "SELECT webhook_record_events($1, $2, $3, $4, $5)", nil, nil, nil, nil, nil)
	check.Equal(t, len(none), 0, "endpoints of no event")
}
