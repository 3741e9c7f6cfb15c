package keys_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestOverlappingTiersResolveByOneRule(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	other := create(t, store, keys.NewKey{Account: "umbrella"})
	tier := func(name string, requests int, spec keys.TierSpec) func() error {
		spec.Name, spec.Requests, spec.Period = name, requests, time.Second
		return func() error { return store.ApplyTier(t.Context(), spec) }
	}
	remove := func(name string) func() error { return func() error { return store.DeleteTier(t.Context(), name, "") } }
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"account", tier("m-account", 1, keys.TierSpec{Accounts: []string{"acme", "acme"}}), "m-account"},
		{"account, later name", tier("n-account", 1, keys.TierSpec{Accounts: []string{"acme"}}), "m-account"},
		{"account, earlier name", tier("a-account", 1, keys.TierSpec{Accounts: []string{"acme"}}), "a-account"},
		{"prefix", tier("z-prefix", 1, keys.TierSpec{KeyPrefixes: []string{key.Prefix}}), "z-prefix"},
		{"prefix, earlier name", tier("y-prefix", 1, keys.TierSpec{KeyPrefixes: []string{key.Prefix}}), "y-prefix"},
		{"own tier", func() error { return store.SetTier(t.Context(), key.Prefix, "n-account") }, "n-account"},
		{"own tier deleted", remove("n-account"), "y-prefix"},
		{"tier no longer names the key", tier("y-prefix", 1, keys.TierSpec{}), "z-prefix"},
		{"prefix deleted", remove("z-prefix"), "a-account"},
		{"account deleted", remove("a-account"), "m-account"},
		{"last deleted", remove("m-account"), keys.DefaultTier},
		{"nothing there to delete", remove("m-account"), keys.DefaultTier},
	} {
		before := load(t, store, key.Key)
		announced.take()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		after, told := load(t, store, key.Key), announced.take()
		if after.Tier.Name != step.want {
			t.Errorf("%s: got %s, want %s", step.name, after.Tier.Name, step.want)
		}
		if before.Tier != after.Tier && after.Version <= before.Version {
			t.Errorf("%s: version %d after %d", step.name, after.Version, before.Version)
		}
		if before.Tier != after.Tier && !slices.ContainsFunc(told, func(r keys.Record) bool { return r.KeyID == after.KeyID && r.Version == after.Version }) {
			t.Errorf("%s: not announced", step.name)
		}
		// The board never marks what it was told: do it, as the gate does.
		check.NoError(t, store.MarkAnnounced(t.Context(), told))
	}
	if got := load(t, store, other.Key); got.Tier != keys.Default() || got.Version != 1 {
		t.Errorf("a key that no tier names: got %+v", got)
	}
}

func TestATierBelongsToItsManager(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	spec := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, ManagedBy: "c/ns/gold"}
	check.NoError(t, store.ApplyTier(t.Context(), spec))
	var managed *keys.ManagedTierError
	stranger := spec
	stranger.ManagedBy = "c/other/gold"
	if err := store.ApplyTier(t.Context(), stranger); !errors.As(err, &managed) || managed.Owner != "c/ns/gold" {
		t.Errorf("got %v", err)
	}
	if err := store.DeleteTier(t.Context(), "gold", stranger.ManagedBy); !errors.As(err, &managed) {
		t.Errorf("got %v", err)
	}
	if err := store.DeleteTier(t.Context(), "gold", spec.ManagedBy); err != nil {
		t.Error(err)
	}
}

func TestTheDefaultTierCanBeChangedAndComesBack(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 5, Period: time.Second, ManagedBy: "m"}))
	if got := load(t, store, key.Key); got.Tier.Requests != 5 || got.Tier.Burst != 5 || len(announced.take()) == 0 {
		t.Errorf("got %+v", got)
	}
	check.NoError(t, store.DeleteTier(t.Context(), keys.DefaultTier, "m"))
	if got := load(t, store, key.Key); got.Tier != keys.Default() {
		t.Errorf("got %+v", got)
	}
}

func TestApplyingTheSameTierAgainWritesNothing(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	spec := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, Accounts: []string{"b", "acme"}}
	for round := range 3 {
		check.NoError(t, store.ApplyTier(t.Context(), spec))
		spec.Accounts = []string{"acme", "b"} // order means nothing
		told := announced.take()
		if (len(told) > 0) != (round == 0) {
			t.Errorf("round %d: announced %+v", round, told)
		}
		if err := store.MarkAnnounced(t.Context(), told); err != nil { // as the gate does
			t.Fatal(err)
		}
	}
	if got := load(t, store, key.Key); got.Version != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestATierThatWasNotAnnouncedIsAnnouncedWhenItIsAppliedAgain(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	spec := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, Accounts: []string{"acme"}}
	announced.err = errors.New("no gate can be told")
	for range 2 { // the second time it is there already
		if err := store.ApplyTier(t.Context(), spec); !errors.As(err, new(*keys.NotAnnouncedError)) {
			t.Fatalf("got %v, want a NotAnnouncedError", err)
		}
	}
	announced.take()
	announced.err = nil
	check.NoError(t, store.ApplyTier(t.Context(), spec))
	if got, want := announced.take(), load(t, store, key.Key); len(got) != 1 || got[0].Version != want.Version || want.Version != 2 {
		t.Errorf("announced %+v, the key is %+v", got, want)
	}
}

func TestATierChangeRaisesEachLiveKeyOnce(t *testing.T) {
	t.Parallel()
	store, announced, pool := newStore(t)
	live, revoked, over := create(t, store, keys.NewKey{}), create(t, store, keys.NewKey{}), create(t, store, keys.NewKey{})
	check.NoError(t, store.Revoke(t.Context(), revoked.Prefix))
	testkit.Exec(t, pool, "UPDATE api_keys SET expires_at = now() - interval '1 day' WHERE prefix = $1", over.Prefix)
	before := make(map[string]int64)
	for _, key := range []keys.Issued{live, revoked, over} {
		before[key.Key] = load(t, store, key.Key).Version
	}
	announced.take()
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 7, Period: time.Second}))
	for key, more := range map[string]int64{live.Key: 1, revoked.Key: 0, over.Key: 0} {
		if got := load(t, store, key).Version - before[key]; got != more {
			t.Errorf("version rose by %d, want %d", got, more)
		}
	}
}

func TestARevocationWaitsForNoTierChange(t *testing.T) {
	t.Parallel()
	store, announced, pool := newStore(t)
	held, urgent := create(t, store, keys.NewKey{}), create(t, store, keys.NewKey{})
	tx := testkit.Begin(t, pool) // somebody who is not done with a key of the tier
	testkit.Exec(t, tx, "SELECT FROM api_keys WHERE prefix = $1 FOR UPDATE", held.Prefix)
	applied := make(chan error, 1)
	go func() {
		applied <- store.ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 7, Period: time.Second})
	}()
	testkit.Eventually(t, "the other key has its new allowance", func() bool { return len(announced.take()) > 0 })
	check.NoError(t, store.Revoke(t.Context(), urgent.Prefix))
	select {
	case err := <-applied:
		t.Fatalf("the tier change did not wait for the key that was held: %v", err)
	default:
	}
	check.NoError(t, tx.Commit(t.Context()))
	check.NoError(t, <-applied)
	if got := load(t, store, held.Key); got.Version != 2 || got.Tier.Requests != 7 {
		t.Errorf("the key that was held: %+v", got)
	}
	if got := load(t, store, urgent.Key); !got.Revoked || got.Version != 3 {
		t.Errorf("the revoked key: %+v", got)
	}
}

func TestATierChangeThatWasCutOffIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	store, announced, pool := newStore(t)
	key := create(t, store, keys.NewKey{})
	const many = 12_000 // more than two chunks
	testkit.Exec(t, pool, `
		INSERT INTO api_keys (id, account_id, prefix, family_id, hash)
		SELECT gen_random_uuid(), a.id, 'service_' || n, a.id, sha256(convert_to(n::text, 'UTF8'))
		FROM accounts a, generate_series(1, $1::int) n`, many)
	spec := keys.TierSpec{Name: keys.DefaultTier, Requests: 7, Period: time.Second}
	versions := func() (raised, twice int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE version = 2), count(*) FILTER (WHERE version > 2) FROM api_keys").
			Scan(&raised, &twice); err != nil {
			t.Fatal(err)
		}
		return raised, twice
	}
	announced.err = errors.New("no gate can be told")
	if err := store.ApplyTier(t.Context(), spec); !errors.As(err, new(*keys.NotAnnouncedError)) {
		t.Fatalf("got %v, want a NotAnnouncedError", err)
	}
	if raised, _ := versions(); raised == 0 || raised > many {
		t.Fatalf("%d of %d keys were raised when the first were not announced", raised, many+1)
	}
	announced.err = nil
	check.NoError(t, store.ApplyTier(t.Context(), spec))
	if raised, twice := versions(); raised != many+1 || twice != 0 {
		t.Errorf("%d keys were raised once, %d more often", raised, twice)
	}
	if got := load(t, store, key.Key); got.Tier.Requests != 7 {
		t.Errorf("got %+v", got)
	}
}

// heldUp is an announcer that is held up until told otherwise.
type heldUp struct {
	called  chan struct{}
	release chan struct{}
}

func (h *heldUp) Announce(ctx context.Context, _ ...keys.Record) error {
	select {
	case h.called <- struct{}{}:
	default:
	}
	select {
	case <-h.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestNobodySaysThatATierAppliesWhileAnotherAnnouncesIt(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	create(t, store, keys.NewKey{})
	slow := &heldUp{called: make(chan struct{}, 1), release: make(chan struct{})}
	spec := keys.TierSpec{Name: keys.DefaultTier, Requests: 7, Period: time.Second}
	results := make(chan error, 2)
	apply := func(store *keys.Store) { results <- store.ApplyTier(t.Context(), spec) }
	go apply(keys.NewStore(pool, slow))
	<-slow.called // the only key is raised, and no gate knows
	go apply(store)
	testkit.Eventually(t, "the second has found that it must wait", func() bool {
		var waits int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE '%TryRaiseLock%' AND pid <> pg_backend_pid() AND state = 'idle'`).Scan(&waits)
		return err == nil && waits > 0
	})
	select {
	case err := <-results:
		t.Fatalf("answered while the first was still announcing: %v", err)
	default:
	}
	close(slow.release)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
