package keys_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestOverlappingTiersResolveByOneRule(t *testing.T) {
	t.Parallel()
	store, confirmed, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	other := createFor(t, store, "umbrella", keys.NewKey{})
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
		confirmed.take()
		check.NoErrorf(t, step.do(), "%s", step.name)
		check.Equal(t, tierOf(t, store, key), step.want, "%s", step.name)
		check.Slices(t, confirmed.take(), []keys.ChangeKind{keys.Restriction}, "%s: confirmed", step.name)
	}
	check.Equal(t, tierOf(t, store, other), keys.DefaultTier, "a key that no tier names")
}

func tierOf(t *testing.T, store *keys.Store, key keys.CreatedKey) string {
	t.Helper()
	return listed(t, store, key).Tier
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
	store, confirmed, pool := newStore(t)
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 5, Period: time.Second, ManagedBy: "m"}))
	standard := func() keys.Tier {
		tiers, err := keys.ReadTiers(t.Context(), keysdb.New(pool))
		check.NoError(t, err)
		return *tiers.Default()
	}
	if got := standard(); got.Requests != 5 || got.Burst != 5 || len(confirmed.take()) == 0 {
		t.Errorf("got %+v", got)
	}
	check.NoError(t, store.DeleteTier(t.Context(), keys.DefaultTier, "m"))
	check.Equal(t, standard(), keys.Default(), "standard tier")
}

func TestApplyingTheSameTierAgainWritesNothingAndIsConfirmed(t *testing.T) {
	t.Parallel()
	store, confirmed, pool := newStore(t)
	changes := func() int { return testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes") }
	spec := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, Accounts: []string{"b", "acme"}}
	confirmed.err = &keys.UnconfirmedError{Silent: 1}
	for range 2 { // the second time it is there already
		if err := store.ApplyTier(t.Context(), spec); !errors.As(err, new(*keys.UnconfirmedError)) {
			t.Fatalf("got %v, want an UnconfirmedError", err)
		}
	}
	before := changes()
	confirmed.take()
	confirmed.err = nil
	spec.Accounts = []string{"acme", "b"} // order means nothing
	check.NoError(t, store.ApplyTier(t.Context(), spec))
	if told := confirmed.take(); !slices.Equal(told, []keys.ChangeKind{keys.Restriction}) || changes() != before {
		t.Errorf("confirmed %v, %d changes after %d", told, changes(), before)
	}
}

func TestATierThatAnotherManagerMadeMeanwhileStaysAsItIs(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	spec := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, ManagedBy: "c/ns/gold"}
	tx := testkit.Begin(t, pool)
	testkit.Exec(t, tx, "INSERT INTO rate_tiers (name, requests, period_seconds, burst, managed_by) VALUES ('gold', 1, 1, 1, 'c/other/gold')")
	applied := make(chan error, 1)
	go func() { applied <- store.ApplyTier(t.Context(), spec) }()
	testkit.Eventually(t, "the second waits for the first", func() bool {
		return testkit.Get[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	check.NoError(t, tx.Commit(t.Context()))
	var managed *keys.ManagedTierError
	if err := testkit.Receive(t, applied, "the tier is applied"); !errors.As(err, &managed) || managed.Owner != "c/other/gold" {
		t.Errorf("got %v", err)
	}
}

func TestATierChangeIsOneChangeHoweverManyKeysHaveTheTier(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	plant(t, pool, "acme", 100)
	before := testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes")
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 7, Period: time.Second}))
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes")-before, 1, "changes")
}

func TestDeletingATierIsOneChangeHoweverManyKeysHaveIt(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	gold := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second}
	check.NoError(t, store.ApplyTier(t.Context(), gold))
	key := create(t, store, keys.NewKey{Tier: "gold"})
	plant(t, pool, "acme", 100)
	testkit.Exec(t, pool, "UPDATE api_keys SET tier = 'gold'")
	before := testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes")
	check.NoError(t, store.DeleteTier(t.Context(), "gold", ""))
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes")-before, 1, "changes")
	check.Equal(t, tierOf(t, store, key), keys.DefaultTier, "tier of the key")
	check.NoError(t, store.ApplyTier(t.Context(), gold))
	check.Equal(t, tierOf(t, store, key), "gold", "tier of the key when the tier exists again")
}

// TestDeletingATierAndRotatingItsKeysWaitForNothingOfEachOther: two transactions that wait for each other's rows are a deadlock.
func TestDeletingATierAndRotatingItsKeysWaitForNothingOfEachOther(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second}))
	key := create(t, store, keys.NewKey{Tier: "gold"})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	deleting := testkit.Begin(t, pool, "SELECT FROM rate_tiers WHERE name = 'gold' FOR UPDATE")
	heir, err := store.Rotate(ctx, key.AccountID, key.Prefix, time.Hour)
	check.Succeeds(t, err, "rotation beside a lock on the tier")
	check.NoError(t, deleting.Rollback(t.Context()))
	rotating := testkit.Begin(t, pool, "SELECT FROM api_keys FOR UPDATE")
	check.Succeeds(t, store.DeleteTier(ctx, "gold", ""), "deletion beside a lock on the tier's keys")
	check.NoError(t, rotating.Rollback(t.Context()))
	check.Equal(t, tierOf(t, store, heir), keys.DefaultTier, "tier of the successor")
}

func TestARevocationWaitsForNoTierChange(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	key := create(t, store, keys.NewKey{})
	tx := testkit.Begin(t, pool, "UPDATE rate_tiers SET requests = 7 WHERE name = 'default'") // another author's, not committed yet
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	check.Succeeds(t, store.RevokeAny(ctx, key.Prefix), "beside an open change of the key's tier")
	check.NoError(t, tx.Commit(t.Context()))
	if !load(t, pool, key.Key).Revoked {
		t.Error("not revoked")
	}
}

func TestAPeriodIsWholeSeconds(t *testing.T) {
	t.Parallel()
	const most = 31 * 24 * time.Hour
	for period, valid := range map[time.Duration]bool{
		time.Second: true, 90 * time.Second: true, most: true,
		1500 * time.Millisecond: false, time.Second + time.Microsecond: false, 999 * time.Millisecond: false,
		0: false, -time.Second: false, most + time.Second: false,
	} {
		err := keys.Tier{Name: "gold", Requests: 10, Period: period, Burst: 10}.Validate()
		invalid, refused := errors.AsType[*keys.InvalidError](err)
		if refused == valid || refused && invalid.Field != "period" {
			t.Errorf("%s: got %v", period, err)
		}
	}
}
