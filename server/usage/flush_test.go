package usage_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

type clock struct{ at atomic.Pointer[time.Time] }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.set(at)
	return c
}

func (c *clock) set(at time.Time) { c.at.Store(&at) }
func (c *clock) now() time.Time   { return *c.at.Load() }

// manyKeys are more than one batch holds.
const manyKeys = 2500

func makeKeys(t *testing.T, pool *pgxpool.Pool) []uuid.UUID {
	t.Helper()
	return testkit.List[uuid.UUID](t, pool, `WITH account AS (INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), 'many') RETURNING id),
		made AS (INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
			SELECT gen_random_uuid(), account.id, gen_random_uuid(), 'service_' || lpad(to_hex(i), 8, '0'), sha256(i::text::bytea)
			FROM set_config('examprep.bulk_changes', 'on', true), account, generate_series(1, $1) i RETURNING id)
		SELECT id FROM made ORDER BY id`, manyKeys)
}

// block runs a statement in a transaction that stays open until release.
func block(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) (release func()) {
	t.Helper()
	tx := testkit.Begin(t, pool)
	release = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	testkit.Exec(t, tx, statement, args...)
	return release
}

// blockUsage makes the transaction that writes a key's first usage of the day wait.
func blockUsage(t *testing.T, pool *pgxpool.Pool, key uuid.UUID, day time.Time) (release func()) {
	t.Helper()
	return block(t, pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
		VALUES ($1, $2, gen_random_uuid(), 0, 0)`, key, day)
}

// blockBatch makes a writer wait that writes a batch of this number.
func blockBatch(t *testing.T, pool *pgxpool.Pool, number int) (release func()) {
	t.Helper()
	testkit.Exec(t, pool, fmt.Sprintf(`
		CREATE FUNCTION await_release() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$;
		CREATE TRIGGER held BEFORE INSERT ON key_usage_batches FOR EACH ROW WHEN (NEW.batch = %d) EXECUTE FUNCTION await_release()`, number))
	return block(t, pool, "SELECT pg_advisory_xact_lock(7)")
}

// awaitWaiting waits until a statement in pool's database waits for another's transaction, or none does.
func awaitWaiting(t *testing.T, pool *pgxpool.Pool, some bool) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("a statement waits for a lock: %v", some), func() bool {
		waits := testkit.Get[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		return waits == some
	})
}

// giveUp ends what step does once it waits for a lock.
func giveUp(t *testing.T, pool *pgxpool.Pool, step func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- step(ctx) }()
	awaitWaiting(t, pool, true)
	cancel()
	if err := testkit.Receive(t, ended, "the step ends"); err == nil {
		t.Fatal("it did not wait: the test proves nothing")
	}
}

// totals are the requests of all keys, and how many keys have some.
func totals(t *testing.T, pool *pgxpool.Pool) (admitted, limited, used int64) {
	t.Helper()
	check.NoError(t, pool.QueryRow(t.Context(), `SELECT coalesce(sum(requests), 0)::bigint, coalesce(sum(rate_limited), 0)::bigint,
		count(*) FROM key_usage`).Scan(&admitted, &limited, &used))
	return admitted, limited, used
}

func written(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	return testkit.Get[int64](t, pool, `SELECT coalesce(sum(c.n), 0)::bigint
		FROM key_usage_batches b, unnest(b.requests) AS c(n)`)
}

func TestAFlushWhoseTimeEndsHasGotSomewhereAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	meter := newMeter(pool, c)
	for _, id := range ids {
		meter.Count(id, true)
		meter.Count(id, false)
	}
	release := blockBatch(t, pool, 2)
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
	check.Equal(t, testkit.Get[int64](t, pool, "SELECT count(last_used_at) FROM api_key_uses"), manyKeys, "keys whose last use is noted")
}

func TestAKeyThatIsBeingChangedDoesNotHoldUpUsage(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	meter := newMeter(pool, newClock(time.Now()))
	block(t, pool, "SELECT FROM api_keys WHERE id = $1 FOR UPDATE", ids[0])
	for range 2 {
		for _, id := range ids {
			meter.Count(id, true)
		}
		flush(t, meter)
	}
	if admitted, _, used := totals(t, pool); admitted != 2*manyKeys || used != manyKeys {
		t.Errorf("%d requests of %d keys are written, want %d of %d", admitted, used, 2*manyKeys, manyKeys)
	}
	check.Equal(t, testkit.Get[int64](t, pool, "SELECT count(last_used_at) FROM api_key_uses"), manyKeys, "keys whose last use is known")
}

func TestLastUseIsThatOfTheNewestDay(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := newKey(t, pool).id
	morning := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	c := newClock(morning)
	meter := newMeter(pool, c)
	for _, step := range []struct {
		name     string
		at       time.Time
		admitted bool
		seen     time.Time
	}{
		{"the first use of a day", morning, true, morning},
		{"the next of that day", morning.Add(time.Hour), true, morning.Add(time.Hour)},
		{"another pod's clock is behind on that day", morning.Add(time.Minute), true, morning.Add(time.Hour)},
		{"another pod tells of the day before", morning.Add(-24 * time.Hour), true, morning.Add(time.Hour)},
		{"a refusal is no use", morning.Add(2 * time.Hour), false, morning.Add(time.Hour)},
		{"nor is it on another day", morning.Add(24 * time.Hour), false, morning.Add(time.Hour)},
		{"a use on that day", morning.Add(25 * time.Hour), true, morning.Add(25 * time.Hour)},
		{"another pod's clock is behind", morning.Add(2 * time.Hour), true, morning.Add(25 * time.Hour)},
		{"the last use of all", morning.Add(26 * time.Hour), true, morning.Add(26 * time.Hour)},
	} {
		c.set(step.at)
		meter.Count(id, step.admitted)
		flush(t, meter)
		if seen := lastUse(t, pool, id); seen == nil || !seen.Equal(step.seen) {
			t.Errorf("%s: its owner sees %v, want %v", step.name, seen, step.seen)
		}
	}
}

func recipe(t *testing.T, begin string) string {
	t.Helper()
	_, rest, begins := strings.Cut(string(testkit.ReadFile(t, "../../docs/operations.md")), "\n    "+begin)
	statement, _, ends := strings.Cut(rest, ";\n")
	if !begins || !ends {
		t.Fatalf("docs/operations.md has no statement %s …", begin)
	}
	return begin + statement
}

func TestPruningKeepsTheLastUseOfEachKey(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	idle, busy, refused := newKey(t, pool).id, newKey(t, pool).id, newKey(t, pool).id
	now := time.Now().UTC().Truncate(time.Microsecond)
	c := newClock(now)
	meter := newMeter(pool, c)
	use := func(key uuid.UUID, at time.Time, admitted bool) {
		c.set(at)
		meter.Count(key, admitted)
		flush(t, meter)
	}
	ago := func(years int) time.Time { return now.AddDate(-years, 0, 0) }
	for _, key := range []uuid.UUID{idle, busy, refused} {
		use(key, ago(5), true)
		use(key, ago(4), true)
	}
	use(busy, now, true)
	use(refused, now, false)
	testkit.Exec(t, pool, recipe(t, "DELETE FROM key_usage"))
	for key, want := range map[uuid.UUID]struct {
		used     time.Time
		requests [2]int64
	}{idle: {ago(4), [2]int64{1, 0}}, busy: {now, [2]int64{1, 0}}, refused: {ago(4), [2]int64{1, 1}}} {
		if at := lastUse(t, pool, key); at == nil || !at.Equal(want.used) {
			t.Errorf("last used at %v, want %v", at, want.used)
		}
		check.Equal(t, usageOf(t, pool, key), want.requests, "usage")
	}
}

func TestTheLastFlushWritesWhatTimeAllowsAndCountsTheRestAsLost(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	cfg := patient(registry)
	cfg.Now = c.now
	meter := usage.NewMeter(pool, cfg)
	for _, id := range ids {
		meter.Count(id, true)
	}
	blockBatch(t, pool, 2)
	end, ended := flushLast(t, meter)
	awaitWaiting(t, pool, true) // the first batch is written
	end()
	testkit.Receive(t, ended, "the last flush ends")
	kept := written(t, pool)
	if lost := int64(testkit.Metric(t, registry, "examprep_key_usage_lost_total", nil)); kept == 0 || lost == 0 || kept+lost != manyKeys {
		t.Errorf("%d are written, %d lost, of %d", kept, lost, manyKeys)
	}
}
