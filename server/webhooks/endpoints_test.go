package webhooks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAnEndpointIsRegisteredChangedAndRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	made, secret, err := b.endpoints.Register(t.Context(), Registration{
		AccountID: account, URL: "https://receiver.example.com/a", Events: []Kind{KindScored}, Description: "gradebook",
	})
	if err != nil || secret == "" {
		t.Fatal(err)
	}
	url, off := "https://receiver.example.com/b", false
	changed, err := b.endpoints.Update(t.Context(), account, made.ID, Change{URL: &url, Events: []Kind{KindSubmitted}, Enabled: &off})
	check.NoError(t, err)
	if changed.URL != url || !slices.Equal(changed.Events, []Kind{KindSubmitted}) || changed.Description != "gradebook" ||
		changed.Status != StatusDisabled || changed.DisabledReason != reasonOwner {
		t.Errorf("changed to %+v", changed)
	}
	on := true
	if changed, err = b.endpoints.Update(t.Context(), account, made.ID, Change{Enabled: &on}); err != nil || changed.Status != StatusEnabled {
		t.Errorf("enabled again: %+v, %v", changed, err)
	}
	plain := "http://receiver.example.com"
	if _, err := b.endpoints.Update(t.Context(), account, made.ID, Change{URL: &plain}); !is[*ValidationError](err) {
		t.Errorf("without TLS: got %v, want a ValidationError", err)
	}
	check.NoError(t, b.endpoints.Delete(t.Context(), account, made.ID))
	if _, err := b.endpoints.Get(t.Context(), account, made.ID); !is[*NotFoundError](err) {
		t.Errorf("after deletion: got %v, want a NotFoundError", err)
	}
}

func TestAnothersEndpointIsNotThereAndAResourcesIsReadOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mine, theirs := b.account(t), b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: theirs, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	managed, err := b.managed.Apply(t.Context(), ManagedEndpoint{
		Owner: "c/ns/n", URL: "https://receiver.example.com", Events: Kinds(), Secret: NewSecret(),
		Account: uuid.NullUUID{UUID: mine, Valid: true},
	})
	check.NoError(t, err)
	for name, call := range map[string]func(id uuid.UUID) error{
		"update": func(id uuid.UUID) error { _, err := b.endpoints.Update(t.Context(), mine, id, Change{}); return err },
		"delete": func(id uuid.UUID) error { return b.endpoints.Delete(t.Context(), mine, id) },
		"rotate": func(id uuid.UUID) error { _, err := b.endpoints.RotateSecret(t.Context(), mine, id); return err },
	} {
		if err := call(made.ID); !is[*NotFoundError](err) {
			t.Errorf("%s another's: got %v, want a NotFoundError", name, err)
		}
		if err := call(managed.ID); !is[*ManagedError](err) {
			t.Errorf("%s a resource's: got %v, want a ManagedError", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"test": func() error { _, err := b.deliveries.Test(t.Context(), mine, made.ID, time.Now()); return err },
		"deliveries": func() error {
			_, err := b.deliveries.List(t.Context(), mine, made.ID, DeliveryFilter{}, 10)
			return err
		},
		"redeliver": func() error { _, err := b.deliveries.Redeliver(t.Context(), mine, made.ID, uuid.New()); return err },
	} {
		if err := call(); !is[*NotFoundError](err) {
			t.Errorf("%s another's: got %v, want a NotFoundError", name, err)
		}
	}
}

func TestAnAccountHasSoManyEndpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	register := func(n int) error {
		_, _, err := b.endpoints.Register(t.Context(), Registration{
			AccountID: account, URL: fmt.Sprintf("https://receiver.example.com/%d", n), Events: Kinds(),
		})
		return err
	}
	for n := range MaxEndpoints {
		check.NoError(t, register(n))
	}
	if err := register(MaxEndpoints); !is[*LimitError](err) {
		t.Errorf("got %v, want a LimitError", err)
	}
}

func TestTheLimitOfEndpointsHoldsHoweverManyRegisterAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	testkit.Exec(t, b.pool, `INSERT INTO webhook_endpoints (id, account_id, url, events)
		SELECT gen_random_uuid(), $1, 'https://receiver.example.com', '{mock_attempt.scored}' FROM generate_series(1, $2::int)`,
		account, MaxEndpoints-1)
	holder := testkit.Begin(t, b.pool, "LOCK TABLE webhook_endpoints IN SHARE MODE") // all count before any writes
	var group sync.WaitGroup
	var registered atomic.Int32
	for range 16 {
		group.Go(func() {
			_, _, err := b.endpoints.Register(context.WithoutCancel(t.Context()), Registration{
				AccountID: account, URL: "https://receiver.example.com", Events: Kinds(),
			})
			if err == nil {
				registered.Add(1)
			} else if !is[*LimitError](err) {
				t.Error(err)
			}
		})
	}
	b.until(t, 16, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	testkit.Release(t, holder)
	group.Wait()
	if registered.Load() != 1 {
		t.Errorf("%d were registered, want 1", registered.Load())
	}
}

func TestAChangeIsCheckedForWhatItChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{
		AccountID: account, URL: "https://127.0.0.1/hook", Events: Kinds(), Description: "d",
	})
	check.NoError(t, err)
	strict := NewEndpoints(b.pool, b.keyring, NewAddressPolicy(nil)) // it refuses loopback
	text, off := "x", false
	if _, err := strict.Update(t.Context(), account, made.ID, Change{Description: &text}); err != nil {
		t.Errorf("another description: %v", err)
	}
	if got, err := strict.Update(t.Context(), account, made.ID, Change{Enabled: &off}); err != nil || got.Status != StatusDisabled {
		t.Errorf("turned off: %+v, %v", got, err)
	}
	if _, err := strict.Update(t.Context(), account, made.ID, Change{Events: []Kind{}}); !is[*ValidationError](err) {
		t.Errorf("no events: got %v, want a ValidationError", err)
	}
	if _, err := strict.Update(t.Context(), account, made.ID, Change{URL: &made.URL}); !is[*ValidationError](err) {
		t.Errorf("a URL that is refused: got %v, want a ValidationError", err)
	}
}

func TestAChangeThatChangesNothingIsNotWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	version := func() string {
		return testkit.Get[string](t, b.pool, "SELECT xmin::text FROM webhook_endpoints")
	}
	before, on := version(), true
	for name, change := range map[string]Change{"empty": {}, "the same": {URL: &made.URL, Events: Kinds(), Enabled: &on}} {
		got, err := b.endpoints.Update(t.Context(), account, made.ID, change)
		if err != nil || got.ID != made.ID || got.URL != made.URL {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if version() != before {
			t.Errorf("%s: the row was written", name)
		}
	}
}

func TestOnlyANewReceiverOrANewBeginningClearsTheRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  string
		change  Change
		cleared bool
	}{
		"enabled, another description":  {StatusEnabled, Change{Description: new("x")}, false},
		"disabled, another description": {StatusDisabled, Change{Description: new("x")}, false},
		"another URL":                   {StatusEnabled, Change{URL: new("https://other.example.com")}, true},
		"turned off":                    {StatusEnabled, Change{Enabled: new(false)}, false},
		"turned on again":               {StatusDisabled, Change{Enabled: new(true)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			account := b.account(t)
			made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com", Events: Kinds()})
			check.NoError(t, err)
			testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now(), status = $1", c.status)
			got, err := b.endpoints.Update(t.Context(), account, made.ID, c.change)
			if err != nil || (got.FailingSince == nil) != c.cleared {
				t.Errorf("failing since %v, %v; want cleared: %v", got.FailingSince, err, c.cleared)
			}
		})
	}
}

// TestApplyWithTheOldEncryptionKeysRotatesNothing applies a resource by an operator that still has the old keyring, after a worker
// with the new one has re-encrypted the secrets.
func TestApplyWithTheOldEncryptionKeysRotatesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want, endpoint := b.endpoint(t, "https://receiver.example.com/")
	previous := want.Secret
	want.Secret = NewSecret() // its customer still verifies by the previous secret
	_, err := b.managed.Apply(t.Context(), want)
	check.NoError(t, err)
	newer, err := ParseKeyring("newer:" + testkit.Secret(1) + "," + testKeys)
	check.NoError(t, err)
	check.NoError(t, newer.Reencrypt(t.Context(), webhooksdb.New(b.pool)))
	_, err = b.managed.Apply(t.Context(), want)
	check.NoError(t, err)
	rows, err := webhooksdb.New(b.pool).SecretsOfEndpoint(t.Context(), endpoint.ID)
	check.NoError(t, err)
	var secrets []string
	for _, row := range rows {
		secret, err := newer.Decrypt(endpoint.ID, row.KeyID, row.Ciphertext)
		check.NoError(t, err)
		secrets = append(secrets, secret)
	}
	if !slices.Equal(secrets, []string{want.Secret, previous}) {
		t.Errorf("%d secrets, want the present one and the previous one", len(secrets))
	}
}

func TestApplyingTheSameTwiceWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want, first := b.endpoint(t, "https://receiver.example.com/hook")
	row := func() string {
		return testkit.Get[string](t, b.pool, "SELECT xmin::text || updated_at FROM webhook_endpoints WHERE id = $1", first.ID)
	}
	before := row()
	again, err := b.managed.Apply(t.Context(), want)
	check.NoError(t, err)
	if again.ID != first.ID || row() != before {
		t.Error("the second apply wrote")
	}
}
