package keys_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/postgrestest"
)

// manyKeys are some of each share.
const manyKeys = 2500

// makeKeys puts keys into the database and returns their ids in order.
func makeKeys(t *testing.T, pool *pgxpool.Pool) []uuid.UUID {
	t.Helper()
	rows, err := pool.Query(t.Context(), `WITH account AS (INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), 'many') RETURNING id),
		made AS (INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
			SELECT gen_random_uuid(), account.id, gen_random_uuid(), 'service_' || lpad(to_hex(i), 8, '0'), sha256(i::text::bytea)
			FROM account, generate_series(1, $1) i RETURNING id)
		SELECT id FROM made ORDER BY id`, manyKeys)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// block runs a statement in a transaction that stays open until release.
func block(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	t.Cleanup(release)
	if _, err := tx.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
	return release
}

// blockUsage makes whoever writes a key's first usage of the day wait.
func blockUsage(t *testing.T, pool *pgxpool.Pool, key uuid.UUID, day time.Time) (release func()) {
	t.Helper()
	return block(t, pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
		VALUES ($1, $2, gen_random_uuid(), 0, 0)`, key, day)
}

// blockShare makes whoever writes batches of a share wait.
func blockShare(t *testing.T, pool *pgxpool.Pool, share int) (release func()) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION await_release() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$;
		CREATE TRIGGER held BEFORE INSERT ON key_usage_batches FOR EACH ROW WHEN (NEW.share = %d) EXECUTE FUNCTION await_release()`, share)); err != nil {
		t.Fatal(err)
	}
	return block(t, pool, "SELECT pg_advisory_xact_lock(7)")
}

// awaitWaiting waits until a statement in pool's database waits for another's transaction, or none does.
func awaitWaiting(t *testing.T, pool *pgxpool.Pool, some bool) {
	t.Helper()
	postgrestest.Eventually(t, fmt.Sprintf("a statement waits for a lock: %v", some), func() bool {
		var waits bool
		if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits == some
	})
}

// giveUp ends what step does once it waits for a lock.
func giveUp(t *testing.T, pool *pgxpool.Pool, step func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- step(ctx) }()
	awaitWaiting(t, pool, true)
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("it did not wait: the test proves nothing")
	}
}

// awaitNoShareLocked waits until no roll-up has a share for itself: one that was given up may not have ended yet.
func awaitNoShareLocked(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	postgrestest.Eventually(t, "no share is locked", func() bool {
		var locked bool
		if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory')`).Scan(&locked); err != nil {
			t.Fatal(err)
		}
		return !locked
	})
}

// totals are the requests of all keys, and how many keys have some.
func totals(t *testing.T, pool *pgxpool.Pool) (admitted, limited, used int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(sum(requests), 0)::bigint, coalesce(sum(rate_limited), 0)::bigint,
		count(*) FROM key_usage`).Scan(&admitted, &limited, &used); err != nil {
		t.Fatal(err)
	}
	return admitted, limited, used
}

// written are the requests in batches that are not rolled up.
func written(t *testing.T, pool *pgxpool.Pool) (requests int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(sum(c.n), 0)::bigint
		FROM key_usage_batches b, unnest(b.requests) AS c(n)`).Scan(&requests); err != nil {
		t.Fatal(err)
	}
	return requests
}

func TestAFlushWhoseTimeEndsHasGotSomewhereAndTheNextGoesOn(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	meter := newMeter(pool, c)
	for _, id := range ids {
		meter.Count(id, true)
		meter.Count(id, false)
	}
	release := blockShare(t, pool, 5)
	giveUp(t, pool, meter.Flush)
	if n := written(t, pool); n == 0 || n >= manyKeys {
		t.Errorf("half-way %d of %d are written", n, manyKeys)
	}
	release()
	meter.Count(ids[0], true)
	flush(t, meter)
	if admitted, limited, used := totals(t, pool); admitted != manyKeys+1 || limited != manyKeys || used != manyKeys {
		t.Errorf("at last %d and %d of %d keys, want %d and %d of %d", admitted, limited, used, manyKeys+1, manyKeys, manyKeys)
	}
	if n := touched(t, pool); n != manyKeys {
		t.Errorf("the last use of %d keys is noted, want %d", n, manyKeys)
	}
}

// TestAKeyWhoseUsageIsLockedHoldsUpItsShareAlone has the second roll-up begin behind the share at which the first one ended.
func TestAKeyWhoseUsageIsLockedHoldsUpItsShareAlone(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	meter := newMeter(pool, c)
	var free int64
	for _, id := range ids {
		meter.Count(id, true)
		if id[15]%8 != ids[0][15]%8 {
			free++
		}
	}
	write(t, meter)
	release := blockUsage(t, pool, ids[0], c.now())
	for range 2 {
		giveUp(t, pool, meter.RollUp)
		awaitWaiting(t, pool, false)
		awaitNoShareLocked(t, pool)
	}
	if admitted, _, _ := totals(t, pool); admitted != free {
		t.Errorf("%d are in the usage, want %d", admitted, free)
	}
	release()
	flush(t, meter)
	if admitted, _, _ := totals(t, pool); admitted != manyKeys {
		t.Errorf("at last %d are in the usage, want %d", admitted, manyKeys)
	}
}

// touched is how many keys have a last use.
func touched(t *testing.T, pool *pgxpool.Pool) (n int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(last_used_at) FROM api_keys").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAKeyThatIsBeingChangedDoesNotHoldUpUsage(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	meter := newMeter(pool, newClock(time.Now()))
	release := block(t, pool, "SELECT FROM api_keys WHERE id = $1 FOR UPDATE", ids[0])
	for range 2 {
		for _, id := range ids {
			meter.Count(id, true)
		}
		flush(t, meter)
	}
	if admitted, _, used := totals(t, pool); admitted != 2*manyKeys || used != manyKeys {
		t.Errorf("%d requests of %d keys are written, want %d of %d", admitted, used, 2*manyKeys, manyKeys)
	}
	if n := touched(t, pool); n != manyKeys-1 {
		t.Errorf("the last use of %d keys is noted, want all but the one", n)
	}
	release()
	flush(t, meter)
	if n := touched(t, pool); n != manyKeys {
		t.Errorf("once the key is free the last use of %d keys is noted, want %d", n, manyKeys)
	}
}

// TestALastUseMovesForwardAndAKeysOwnRowIsWrittenOnceADay follows a key through days, and what its own row and its owner see
// of the last use.
func TestALastUseMovesForwardAndAKeysOwnRowIsWrittenOnceADay(t *testing.T) {
	store, _, pool := newStore(t)
	key := create(t, store, keys.NewKey{})
	id := idOf(t, store, key)
	morning := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	c := newClock(morning)
	meter := newMeter(pool, c)
	for _, step := range []struct {
		name     string
		at       time.Time
		admitted bool
		own      time.Time // in the key's own row
		seen     time.Time
	}{
		{"the first use of a day", morning, true, morning, morning},
		{"the next of that day", morning.Add(time.Hour), true, morning, morning.Add(time.Hour)},
		{"another pod's clock is behind on that day", morning.Add(time.Minute), true, morning, morning.Add(time.Hour)},
		{"another pod tells of the day before", morning.Add(-24 * time.Hour), true, morning, morning.Add(time.Hour)},
		{"a refusal is no use", morning.Add(2 * time.Hour), false, morning, morning.Add(time.Hour)},
		{"nor is it on another day", morning.Add(24 * time.Hour), false, morning, morning.Add(time.Hour)},
		{"a use on that day", morning.Add(25 * time.Hour), true, morning.Add(25 * time.Hour), morning.Add(25 * time.Hour)},
		{"another pod's clock is behind", morning.Add(2 * time.Hour), true, morning.Add(25 * time.Hour), morning.Add(25 * time.Hour)},
		{"the last use of all", morning.Add(26 * time.Hour), true, morning.Add(25 * time.Hour), morning.Add(26 * time.Hour)},
	} {
		c.set(step.at)
		meter.Count(id, step.admitted)
		flush(t, meter)
		if own, seen := lastUse(t, store, pool, key.Prefix); !own.Equal(step.own) || !seen.Equal(step.seen) {
			t.Errorf("%s: its own row says %v, its owner sees %v, want %v and %v", step.name, own, seen, step.own, step.seen)
		}
	}
	if _, err := pool.Exec(t.Context(), "DELETE FROM key_usage"); err != nil {
		t.Fatal(err)
	}
	if _, seen := lastUse(t, store, pool, key.Prefix); !seen.Equal(morning.Add(25 * time.Hour)) {
		t.Errorf("without the day's usage its owner sees %v", seen)
	}
}

// lastUse returns a key's last use as its own row has it, and as every query for keys tells its owner, who has no other.
func lastUse(t *testing.T, store *keys.Store, pool *pgxpool.Pool, prefix string) (own, seen time.Time) {
	t.Helper()
	var account uuid.UUID
	if err := pool.QueryRow(t.Context(), "SELECT last_used_at, account_id FROM api_keys WHERE prefix = $1", prefix).Scan(&own, &account); err != nil {
		t.Fatal(err)
	}
	one, err := store.Get(t.Context(), prefix)
	if err != nil || one.LastUsedAt == nil {
		t.Fatalf("got %+v, %v", one, err)
	}
	list, err := store.List(t.Context(), one.Account)
	if err != nil {
		t.Fatal(err)
	}
	page, err := store.Page(t.Context(), account, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range slices.Concat(list, page.Keys) {
		if other.LastUsedAt == nil || !other.LastUsedAt.Equal(*one.LastUsedAt) {
			t.Fatalf("a list has %+v, the key by itself %v", other, one.LastUsedAt)
		}
	}
	return own, *one.LastUsedAt
}

func TestTheLastFlushWritesWhatTimeAllowsAndCountsTheRestAsLost(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	meter := keys.NewMeter(pool, keys.MeterConfig{Interval: time.Hour, Now: c.now, Registerer: registry})
	for _, id := range ids {
		meter.Count(id, true)
	}
	blockShare(t, pool, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := meter.Run(ctx); err != nil {
		t.Fatal(err)
	}
	kept := written(t, pool)
	if lost := int64(metric(t, registry, "examprep_key_usage_lost_total")); kept == 0 || lost == 0 || kept+lost != manyKeys {
		t.Errorf("%d are written, %d lost, of %d", kept, lost, manyKeys)
	}
}
