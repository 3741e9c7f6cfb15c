package usage_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

// impatient is a meter that hardly waits for locked rows.
func impatient(pool *pgxpool.Pool) *usage.Meter {
	cfg := patient(nil)
	cfg.LockTimeout = time.Millisecond
	return usage.NewMeter(pool, cfg)
}

// TestAKeyInTroubleCostsNoOtherKeysUsage has the row of one key's usage that cannot be written, among those of many others in several
// batches of one day.
func TestAKeyInTroubleCostsNoOtherKeysUsage(t *testing.T) {
	t.Parallel()
	for _, trouble := range testkit.Troubles() {
		t.Run(string(trouble), func(t *testing.T) {
			t.Parallel()
			pool := testkit.Database(t)
			ids := makeKeys(t, pool)[:50]
			meter := impatient(pool)
			writeBatches(t, meter, 1, ids...)
			check.NoError(t, meter.RollUp(t.Context()))
			end := trouble.Begin(t, pool, "key_usage", "key_id", ids[20].String())
			writeBatches(t, meter, 4, ids...)
			if err := meter.RollUp(t.Context()); (err != nil) != (trouble != testkit.Slow) {
				t.Errorf("the roll-up returned %v", err)
			}
			for i, id := range ids {
				want := [2]int64{5, 0}
				if i == 20 && trouble != testkit.Slow {
					want[0] = 1
				}
				check.Equal(t, usageOf(t, pool, id), want, "usage of key %d beside the trouble", i)
			}
			end()
			check.NoError(t, meter.RollUp(t.Context()))
			check.Equal(t, usageOf(t, pool, ids[20]), [2]int64{5, 0}, "usage of the key after the trouble")
			check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM key_usage_batches"), 0, "batches that still wait")
		})
	}
}

// TestABatchInTroubleCostsNoOther has a batch that cannot be stored, before and after others of the same meter.
func TestABatchInTroubleCostsNoOther(t *testing.T) {
	t.Parallel()
	for _, trouble := range []testkit.Trouble{testkit.Poisoned, testkit.Slow} { // no transaction can lock a row that does not exist yet
		t.Run(string(trouble), func(t *testing.T) {
			t.Parallel()
			pool := testkit.Database(t)
			ids := makeKeys(t, pool)
			meter := impatient(pool)
			end := trouble.Begin(t, pool, "key_usage_batches", "batch", "2")
			for _, id := range ids {
				meter.Count(id, true)
			}
			want := int64(manyKeys)
			if err := meter.Flush(t.Context()); err != nil && trouble == testkit.Poisoned {
				want = 2048
			} else {
				check.NoError(t, err)
			}
			check.Equal(t, written(t, pool), want, "requests written")
			for range 20 { // each flush has a batch that PostgreSQL stores
				meter.Count(ids[0], true)
				_ = meter.Flush(t.Context())
			}
			check.Equal(t, written(t, pool), want+20, "requests written beside the batch")
			end()
			flush(t, meter)
			admitted, _, used := totals(t, pool)
			check.Equal(t, [2]int64{admitted, used}, [2]int64{manyKeys + 20, manyKeys}, "usage")
		})
	}
}

// TestRefusedBatchesAreBounded: while PostgreSQL refuses all of them, a meter keeps its counters instead.
func TestRefusedBatchesAreBounded(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	meter := impatient(pool)
	allow := refuse(t, pool, "key_usage_batches", "INSERT", "true")
	for range 20 {
		meter.Count(ids[0], true)
		if meter.Flush(t.Context()) == nil {
			t.Fatal("a batch is stored")
		}
	}
	if n := meter.Unwritten(); n != 8 {
		t.Errorf("%d batches are kept, want 8", n)
	}
	allow()
	flush(t, meter)
	check.Equal(t, usageOf(t, pool, ids[0]), [2]int64{20, 0}, "usage")
}

func TestAWriterInTroubleCostsNoOther(t *testing.T) {
	t.Parallel()
	for _, trouble := range testkit.Troubles() {
		t.Run(string(trouble), func(t *testing.T) {
			t.Parallel()
			pool := testkit.Database(t)
			id := newKey(t, pool).id
			testkit.Exec(t, pool, `INSERT INTO key_usage_writers (id, batch, written_at)
				SELECT gen_random_uuid(), 1, now() - interval '31 days' FROM generate_series(1, 100)`)
			bad := testkit.Get[uuid.UUID](t, pool, "SELECT id FROM key_usage_writers LIMIT 1")
			end := trouble.Begin(t, pool, "key_usage_writers", "id", bad.String())
			meter := impatient(pool)
			left := func() int {
				writeBatches(t, meter, 1, id)
				_ = meter.RollUp(t.Context())
				return testkit.Get[int](t, pool, "SELECT count(*) FROM key_usage_writers WHERE written_at < now() - interval '1 day'")
			}
			want := 1
			if trouble == testkit.Slow {
				want = 0
			}
			check.Equal(t, left(), want, "writers that ended long ago, beside the trouble")
			end()
			check.Equal(t, left(), 0, "writers that ended long ago")
			check.Equal(t, usageOf(t, pool, id), [2]int64{2, 0}, "usage")
		})
	}
}
