package directory_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// start runs a pod with patient limits. Its clock is a [gatetest.Clock] unless cfg has one.
func start(t testing.TB, pool *pgxpool.Pool, cfg directory.Config) (d *directory.Directory, stop func()) {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = gatetest.NewClock().Read
	}
	cfg.Timings, cfg.BoardTimeout = cmp.Or(cfg.Timings, gatetest.Timings()), testkit.Patience
	d = directory.New(cfg, pool)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		check.Succeeds(t, d.Run(ctx), "Run")
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			done.Wait()
			d.Close()
		})
	}
	t.Cleanup(stop)
	testkit.Eventually(t, "the pod has a lease", d.Leased)
	return d, stop
}

// unconfirmed lets a test decide when the pods confirm a change.
type unconfirmed struct{}

func (unconfirmed) Confirm(context.Context, keys.ChangeKind) error { return nil }

func store(pool *pgxpool.Pool) *keys.Store { return keys.NewStore(pool, unconfirmed{}) }

func create(t testing.TB, pool *pgxpool.Pool, account string) keys.CreatedKey {
	t.Helper()
	issued, err := store(pool).CreateFor(t.Context(), account, keys.NewKey{})
	check.NoError(t, err)
	return issued
}

func confirm(t testing.TB, pool *pgxpool.Pool, kind keys.ChangeKind) {
	t.Helper()
	check.NoError(t, confirmBy(t, pool, kind, directory.AuthorConfig{Clock: gatetest.NewClock().Read, Timings: gatetest.Timings()}))
}

// confirmBy waits for the pods as such an author. It gives up before it would wait for a silent pod in real time.
func confirmBy(t testing.TB, pool *pgxpool.Pool, kind keys.ChangeKind, cfg directory.AuthorConfig) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	return directory.NewAuthor(pool, cfg).Confirm(ctx, kind)
}

func hashOf(key keys.CreatedKey) keys.Hash { return sha256.Sum256([]byte(key.Key)) }

func wantStatus(t testing.TB, d *directory.Directory, key keys.CreatedKey, want directory.Status) directory.Key {
	t.Helper()
	found, got := d.Find(t.Context(), hashOf(key))
	check.Equal(t, got, want, "status of key %s", key.Prefix)
	return found
}

func exec(t testing.TB, pool *pgxpool.Pool, statement string, arguments ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statement, arguments...)
	check.NoError(t, err)
}

func TestEveryPodKnowsAChangeWhenItIsConfirmed(t *testing.T) {
	pool := testkit.Database(t)
	old := create(t, pool, "acme")
	var pods []*directory.Directory
	for range 3 {
		d, _ := start(t, pool, directory.Config{})
		pods = append(pods, d)
	}
	fresh := create(t, pool, "acme")
	confirm(t, pool, keys.Addition)
	for _, d := range pods {
		if found := wantStatus(t, d, old, directory.Live); found.Tier.Name != keys.DefaultTier || found.KeyID != found.FamilyID {
			t.Errorf("got %+v", found)
		}
		wantStatus(t, d, fresh, directory.Live)
	}
	successor, err := store(pool).Rotate(t.Context(), fresh.AccountID, fresh.Prefix, time.Hour)
	check.NoError(t, err)
	check.NoError(t, store(pool).RevokeAny(t.Context(), old.Prefix))
	confirm(t, pool, keys.Restriction)
	for _, d := range pods {
		wantStatus(t, d, old, directory.Unknown)
		was, is := wantStatus(t, d, fresh, directory.Live), wantStatus(t, d, successor, directory.Live)
		if was.FamilyID != is.FamilyID || was.AccountID != is.AccountID || was.KeyID == is.KeyID {
			t.Errorf("the successor of %+v is %+v", was, is)
		}
	}
	check.Equal(t, pods[0].Pods(), 3, "pods")
}

func TestTierThatAppliesIsResolvedInMemory(t *testing.T) {
	pool := testkit.Database(t)
	d, _ := start(t, pool, directory.Config{})
	s := store(pool)
	key := create(t, pool, "acme")
	want := func(what, tier string) {
		t.Helper()
		confirm(t, pool, keys.Restriction)
		if found := wantStatus(t, d, key, directory.Live); found.Tier == nil || found.Tier.Name != tier {
			t.Errorf("%s: got %+v, want tier %s", what, found.Tier, tier)
		}
	}
	apply := func(spec keys.TierSpec) {
		t.Helper()
		spec.Requests, spec.Period = 7, time.Second
		check.NoError(t, s.ApplyTier(t.Context(), spec))
	}
	want("no tier names it", keys.DefaultTier)
	apply(keys.TierSpec{Name: "zinc", Accounts: []string{"acme"}})
	want("its account", "zinc")
	apply(keys.TierSpec{Name: "gold", Accounts: []string{"acme", "other"}})
	want("two tiers name its account", "gold")
	apply(keys.TierSpec{Name: "iron", KeyPrefixes: []string{key.Prefix}})
	want("its prefix", "iron")
	apply(keys.TierSpec{Name: "own"})
	check.NoError(t, s.SetTier(t.Context(), key.Prefix, "own"))
	want("its own", "own")
	check.NoError(t, s.DeleteTier(t.Context(), "own", ""))
	want("its own is deleted", "iron")
	apply(keys.TierSpec{Name: "own"})
	want("its own exists again", "own")
	check.NoError(t, s.DeleteTier(t.Context(), "own", ""))
	check.NoError(t, s.DeleteTier(t.Context(), "iron", ""))
	exec(t, pool, "UPDATE accounts SET name = 'renamed' WHERE name = 'acme'")
	want("its account has another name", keys.DefaultTier)
}

func TestKeyExpiresByTheClockOfPostgreSQL(t *testing.T) {
	pool := testkit.Database(t)
	c := gatetest.NewClock()
	c.Pass(-time.Hour) // the pod's wall clock is wrong
	d, _ := start(t, pool, directory.Config{Clock: c.Read})
	at := time.Now().Add(time.Hour)
	key, err := store(pool).CreateFor(t.Context(), "acme", keys.NewKey{ExpiresAt: &at})
	check.NoError(t, err)
	confirm(t, pool, keys.Addition)
	wantStatus(t, d, key, directory.Live)
	exec(t, pool, "UPDATE api_keys SET expires_at = now() + interval '10 ms' WHERE prefix = $1", key.Prefix)
	confirm(t, pool, keys.Restriction)
	testkit.Eventually(t, "the key expires", func() bool {
		_, status := d.Find(t.Context(), hashOf(key))
		return status == directory.Unknown
	})
	exec(t, pool, "UPDATE api_keys SET expires_at = 'infinity' WHERE prefix = $1", key.Prefix)
	confirm(t, pool, keys.Addition)
	wantStatus(t, d, key, directory.Live)
}

// TestEveryWriterIsSeen changes keys without the store, and as a session that poses as a replica.
func TestEveryWriterIsSeen(t *testing.T) {
	pool := testkit.Database(t)
	key := create(t, pool, "acme")
	d, _ := start(t, pool, directory.Config{})
	exec(t, pool, "BEGIN; SET LOCAL session_replication_role = replica; UPDATE api_keys SET revoked_at = now(); COMMIT")
	confirm(t, pool, keys.Restriction)
	wantStatus(t, d, key, directory.Unknown)
	exec(t, pool, "UPDATE api_keys SET revoked_at = NULL")
	confirm(t, pool, keys.Addition)
	wantStatus(t, d, key, directory.Live)
	exec(t, pool, "DELETE FROM api_keys")
	confirm(t, pool, keys.Restriction)
	wantStatus(t, d, key, directory.Unknown)
	for _, table := range []string{"api_keys", "rate_tiers CASCADE", "accounts CASCADE", "key_changes"} {
		if _, err := pool.Exec(t.Context(), "TRUNCATE "+table); err == nil {
			t.Errorf("TRUNCATE %s is accepted", table)
		}
	}
}

func TestUnreadableRowRefusesItsKeyOnly(t *testing.T) {
	pool := testkit.Database(t)
	bad, good, tiered := create(t, pool, "acme"), create(t, pool, "acme"), create(t, pool, "acme")
	exec(t, pool, "UPDATE api_keys SET prefix = 'no hexadecimal digits' WHERE prefix = $1", bad.Prefix)
	exec(t, pool, "INSERT INTO rate_tiers (name, requests, period_seconds, burst, key_prefixes) VALUES ('bad', 1, 2000000000, 1, '{NULL}')")
	exec(t, pool, "UPDATE api_keys SET tier = 'bad' WHERE prefix = $1", tiered.Prefix)
	registry := prometheus.NewRegistry()
	d, _ := start(t, pool, directory.Config{Registerer: registry})
	for round := range 2 { // loaded, and then changed
		wantStatus(t, d, bad, directory.Unknown)
		wantStatus(t, d, tiered, directory.Unknown)
		wantStatus(t, d, good, directory.Live)
		expected := "# HELP examprep_keys_unreadable_rows Rows of keys and tiers that the pod cannot read; these keys are refused.\n" +
			"# TYPE examprep_keys_unreadable_rows gauge\nexamprep_keys_unreadable_rows 2\n"
		check.Succeeds(t, testutil.GatherAndCompare(registry, strings.NewReader(expected), "examprep_keys_unreadable_rows"), "round %d", round)
		exec(t, pool, "UPDATE api_keys SET expires_at = now() + interval '1 day'")
		exec(t, pool, "UPDATE rate_tiers SET burst = 2 WHERE name = 'bad'")
		confirm(t, pool, keys.Restriction)
	}
	exec(t, pool, "UPDATE api_keys SET prefix = $1 WHERE prefix = 'no hexadecimal digits'", bad.Prefix)
	exec(t, pool, "UPDATE rate_tiers SET period_seconds = 1 WHERE name = 'bad'")
	confirm(t, pool, keys.Addition)
	wantStatus(t, d, bad, directory.Live)
	wantStatus(t, d, tiered, directory.Live)
}

func TestWithoutALeaseRedisDecides(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	board := directory.NewRedisBoard(rdb, prefix)
	key := create(t, pool, "acme")
	c := gatetest.NewClock()
	d, _ := start(t, pool, directory.Config{Board: board, Clock: c.Read})
	told := func() bool {
		number, err := board.Read(t.Context())
		return err == nil && number > 0
	}
	testkit.Eventually(t, "the pod has told Redis", told)
	restore := testkit.CutOff(t, pool)
	c.Pass(2 * time.Second)
	wantStatus(t, d, key, directory.Live)
	wantStatus(t, d, keys.CreatedKey{Key: "unknown"}, directory.Unavailable)
	if d.Leased() {
		t.Error("the lease outlives its time")
	}
	number, err := board.Read(t.Context())
	check.NoError(t, err)
	_, err = board.Tell(t.Context(), number+1)
	check.NoError(t, err)
	wantStatus(t, d, key, directory.Unavailable)
	if stored, err := board.Tell(t.Context(), number); err != nil || stored != number+1 {
		t.Errorf("a lower number: Redis has %d, %v; want %d", stored, err, number+1)
	}
	rdb.Del(t.Context(), prefix+"keys:change")
	wantStatus(t, d, key, directory.Unavailable)
	_, err = board.Tell(t.Context(), number)
	check.NoError(t, err)
	wantStatus(t, d, key, directory.Live)
	c.Pass(24 * time.Hour)
	wantStatus(t, d, key, directory.Unavailable)
	restore()
	testkit.Eventually(t, "the pod has a lease again", d.Leased)
	wantStatus(t, d, key, directory.Live)
	wantStatus(t, d, keys.CreatedKey{Key: "unknown"}, directory.Unknown)
}

func TestEachClockEndsALease(t *testing.T) {
	pool := testkit.Database(t)
	var mu sync.Mutex
	var frozen *directory.Reading
	c := gatetest.NewClock()
	d, _ := start(t, pool, directory.Config{Clock: func() directory.Reading {
		mu.Lock()
		defer mu.Unlock()
		if frozen != nil {
			return *frozen
		}
		return c.Read()
	}})
	testkit.CutOff(t, pool)
	set := func(r directory.Reading) {
		mu.Lock()
		defer mu.Unlock()
		frozen = &r
	}
	now := c.Read()
	set(directory.Reading{Monotonic: now.Monotonic + 3*time.Second, Wall: now.Wall.Add(-time.Hour)})
	if d.Leased() {
		t.Error("a wall clock that steps back extends a lease")
	}
	set(directory.Reading{Monotonic: now.Monotonic, Wall: now.Wall.Add(3 * time.Second)})
	if d.Leased() {
		t.Error("a monotonic clock that stands still extends a lease")
	}
}

// TestLostCommitsAreLoadedAgain takes the pod's number away, as a fail-over or a restore does.
func TestLostCommitsAreLoadedAgain(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	board := directory.NewRedisBoard(rdb, prefix)
	kept := create(t, pool, "acme")
	var number int64
	check.NoError(t, pool.QueryRow(t.Context(), "SELECT max(number) FROM key_changes").Scan(&number))
	d, _ := start(t, pool, directory.Config{Board: board})
	lost := create(t, pool, "acme")
	confirm(t, pool, keys.Restriction)
	wantStatus(t, d, lost, directory.Live)
	testkit.Eventually(t, "Redis has the number", func() bool {
		stored, err := board.Read(t.Context())
		return err == nil && stored > number
	})
	exec(t, pool, `BEGIN; ALTER TABLE api_keys DISABLE TRIGGER ALL; DELETE FROM api_keys WHERE prefix = '`+lost.Prefix+`';
		ALTER TABLE api_keys ENABLE TRIGGER ALL; ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_changed;
		ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_updated; DELETE FROM key_changes WHERE number > `+fmt.Sprint(number)+`; COMMIT`)
	testkit.Eventually(t, "the lost key is refused", func() bool {
		_, status := d.Find(t.Context(), hashOf(lost))
		return status == directory.Unknown
	})
	wantStatus(t, d, kept, directory.Live)
	testkit.Eventually(t, "an empty change is above Redis' number", func() bool {
		stored, err := board.Read(t.Context())
		var newest int64
		if scan := pool.QueryRow(t.Context(), "SELECT max(number) FROM key_changes").Scan(&newest); scan != nil || err != nil {
			return false
		}
		return newest == stored && newest > number
	})
}
