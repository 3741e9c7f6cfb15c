package webhooks

import (
	"log/slog"
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

func TestNotifierAddsEachEndpointOnce(t *testing.T) {
	t.Parallel()
	client, prefix := testkit.Redis(t)
	notifier := NewNotifier(client, prefix, slog.New(slog.DiscardHandler))
	first, second := uuid.New(), uuid.New()
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
