package webhooks

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// recoverable asks what a recovery would do, and checks that nothing was written.
func (b *bench) recoverable(t *testing.T, account, endpoint uuid.UUID, since time.Time) (Recovery, error) {
	t.Helper()
	const contents = `SELECT coalesce((SELECT md5(string_agg(d::text, '' ORDER BY d.id)) FROM webhook_deliveries d), '')
		|| (SELECT count(*) FROM audit_log) || (SELECT count(*) FROM webhook_events)`
	before := testkit.Get[string](t, b.pool, contents)
	would, err := b.deliveries.Recoverable(acting(t), account, endpoint, since)
	check.Equal(t, testkit.Get[string](t, b.pool, contents), before, "the database after the question")
	return would, err
}

// TestRecoverableIsWhatARecoverySends draws events with up to three deliveries each.
func TestRecoverableIsWhatARecoverySends(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	woken := 0
	b.deliveries = NewDeliveries(b.pool, func(uuid.UUID) { woken++ })
	rapid.Check(t, func(rt *rapid.T) {
		account, endpoint := b.registered(t, "https://receiver.example.com/")
		for range rapid.IntRange(0, 5).Draw(rt, "events") {
			event := b.scoredBy(t, account)
			last := testkit.Get[uuid.UUID](t, b.pool, "SELECT id FROM webhook_deliveries WHERE event_id = $1", event.ID)
			for again := range rapid.IntRange(1, 3).Draw(rt, "deliveries") {
				if again > 0 {
					var err error
					last, err = b.deliveries.Redeliver(t.Context(), account, endpoint.ID, last)
					check.NoError(rt, err)
				}
				state, hours := rapid.SampledFrom(States()).Draw(rt, "state"), rapid.SampledFrom([]int{1, 3}).Draw(rt, "hours")
				b.end(t, last, string(state), time.Duration(hours)*time.Hour)
			}
		}
		since, wokenBefore := time.Now().Add(-2*time.Hour), woken
		would, err := b.recoverable(t, account, endpoint.ID, since)
		check.NoError(rt, err)
		check.Equal(rt, woken, wokenBefore, "calls of wake")
		did, err := b.deliveries.Recover(t.Context(), account, endpoint.ID, since)
		check.NoError(rt, err)
		check.Equal(rt, would, did, "recoverable")
	})
}

func TestRecoverableIsOfOneCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	b.missed(t, account, endpoint.ID, MaxRecovery+1)
	for _, want := range []Recovery{{MaxRecovery, true}, {1, false}, {}} {
		would, err := b.recoverable(t, account, endpoint.ID, time.Now().Add(-time.Hour))
		check.NoError(t, err)
		check.Equal(t, would, want, "recoverable")
		check.Equal(t, b.recover(t, account, endpoint.ID, time.Hour), want, "recovered")
	}
}

// TestRecoverableIsRefusedAsARecoveryIs compares the errors of both calls.
func TestRecoverableIsRefusedAsARecoveryIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	_, another := b.registered(t, "https://receiver.example.com/")
	b.missed(t, account, endpoint.ID, 1)
	for name, since := range map[string]time.Time{
		"to come": time.Now().Add(time.Hour), "long ago": time.Now().Add(-RecoveryWindow - time.Hour), "never": {},
	} {
		_, err := b.recoverable(t, account, endpoint.ID, since)
		if invalid, ok := errors.AsType[*ValidationError](err); !ok || invalid.Field != "since" {
			t.Errorf("%s: got %v, want a ValidationError of since", name, err)
		}
	}
	hourAgo := time.Now().Add(-time.Hour)
	for name, id := range map[string]uuid.UUID{"of no endpoint": uuid.New(), "of another's": another.ID} {
		if _, err := b.recoverable(t, account, id, hourAgo); !is[*NotFoundError](err) {
			t.Errorf("%s: got %v, want a NotFoundError", name, err)
		}
	}
	if _, err := b.endpoints.Update(t.Context(), account, endpoint.ID, Change{Enabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.recoverable(t, account, endpoint.ID, hourAgo); !is[*DisabledError](err) {
		t.Errorf("of a disabled endpoint: got %v, want a DisabledError", err)
	}
}
