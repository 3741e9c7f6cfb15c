package usage_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

// allowBatches has the database refuse each roll-up of more batches, as it does where so many take too long.
func allowBatches(t *testing.T, pool *pgxpool.Pool, most int) {
	t.Helper()
	testkit.Exec(t, pool, fmt.Sprintf(`
		CREATE FUNCTION refuse_many() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF (SELECT count(*) FROM taken) > %d THEN RAISE EXCEPTION 'too much at once'; END IF;
				RETURN NULL;
			END $$;
		CREATE TRIGGER bounded AFTER DELETE ON key_usage_batches REFERENCING OLD TABLE AS taken
			FOR EACH STATEMENT EXECUTE FUNCTION refuse_many()`, most))
}

// watchRollUps has the database note how many batches each roll-up takes. largest returns the largest so far.
func watchRollUps(t *testing.T, pool *pgxpool.Pool) (largest func() int) {
	t.Helper()
	testkit.Exec(t, pool, `
		CREATE TABLE roll_ups (batches bigint);
		CREATE FUNCTION note_roll_up() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO roll_ups SELECT count(*) FROM taken; RETURN NULL; END $$;
		CREATE TRIGGER noted AFTER DELETE ON key_usage_batches REFERENCING OLD TABLE AS taken
			FOR EACH STATEMENT EXECUTE FUNCTION note_roll_up()`)
	return func() int {
		t.Helper()
		return testkit.Get[int](t, pool, "SELECT max(batches) FROM roll_ups")
	}
}

func rollUpBy32(t *testing.T, pool *pgxpool.Pool, meter *usage.Meter, id uuid.UUID, batches int) {
	t.Helper()
	largest := watchRollUps(t, pool)
	writeBatches(t, meter, batches, id)
	check.NoError(t, meter.RollUp(t.Context()))
	check.Equal(t, largest(), 32, "batches of the largest roll-up")
}

func writeBatches(t *testing.T, meter *usage.Meter, batches int, ids ...uuid.UUID) {
	t.Helper()
	for range batches {
		for _, id := range ids {
			meter.Count(id, true)
		}
		write(t, meter)
	}
}

func TestABacklogThatIsTooMuchForOneStatementShrinks(t *testing.T) {
	t.Parallel()
	for _, possible := range []int{1, 5} {
		t.Run(fmt.Sprintf("at most %d batches", possible), func(t *testing.T) {
			const batches = 100
			pool := testkit.Database(t)
			ids := makeKeys(t, pool)[:3]
			registry := prometheus.NewRegistry()
			meter := usage.NewMeter(pool, patient(registry))
			writeBatches(t, meter, batches, ids...)
			if n := testkit.Get[int](t, pool, "SELECT count(*) FROM key_usage_batches"); n != batches {
				t.Fatalf("%d batches wait, want %d", n, batches)
			}
			allowBatches(t, pool, possible)
			check.NoError(t, meter.RollUp(t.Context()))
			check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM key_usage_batches"), 0, "batches that still wait")
			if testkit.Metric(t, registry, "examprep_key_usage_roll_up_failures_total", nil) == 0 {
				t.Error("the database refused nothing: the test proves nothing")
			}
			for _, id := range ids {
				check.Equal(t, usageOf(t, pool, id), [2]int64{batches, 0}, "usage")
			}
		})
	}
}

func TestOnceTheDatabaseCanDoMoreItIsAskedForMore(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := makeKeys(t, pool)[0]
	meter := newMeter(pool, newClock(time.Now()))
	writeBatches(t, meter, 1, id)
	allowBatches(t, pool, 0)
	for range 3 {
		if meter.RollUp(t.Context()) == nil {
			t.Fatal("it was not refused: the test proves nothing")
		}
	}
	testkit.Exec(t, pool, "DROP TRIGGER bounded ON key_usage_batches")
	rollUpBy32(t, pool, meter, id, 200)
	check.Equal(t, usageOf(t, pool, id), [2]int64{201, 0}, "usage")
}

// TestARollUpTakesNoMoreThanItIsToHoweverItIsPlanned has the database believe that the table is all but empty, which it then
// joins row by row: an old transaction keeps vacuum from the rows that are gone.
func TestARollUpTakesNoMoreThanItIsToHoweverItIsPlanned(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := makeKeys(t, pool)[0]
	meter := newMeter(pool, newClock(time.Now()))
	block(t, pool, "SELECT txid_current()")
	writeBatches(t, meter, 300, id)
	check.NoError(t, meter.RollUp(t.Context()))
	testkit.Exec(t, pool, "VACUUM key_usage_batches")
	rollUpBy32(t, pool, meter, id, 50)
	check.Equal(t, usageOf(t, pool, id), [2]int64{350, 0}, "usage")
}

func TestAProcessThatEndsRollsUpBitByBit(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	id := makeKeys(t, pool)[0]
	meter := newMeter(pool, newClock(time.Now()))
	writeBatches(t, meter, 3, id)
	allowBatches(t, pool, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.NoError(t, meter.Run(ctx))
	check.Equal(t, usageOf(t, pool, id), [2]int64{3, 0}, "usage")
}

// TestRollUpLeavesBatchesToThePodThatRollsUp has the first pod wait for a row that the second would have to wait for too.
func TestRollUpLeavesBatchesToThePodThatRollsUp(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	first, second := newMeter(pool, c), newMeter(pool, c)
	writeBatches(t, first, 1, ids[0])
	release := blockUsage(t, pool, ids[0], c.now())
	done := make(chan error, 1)
	go func() { done <- first.RollUp(context.WithoutCancel(t.Context())) }()
	awaitWaiting(t, pool, true)

	writeBatches(t, second, 1, ids[0], ids[1])
	check.Succeeds(t, second.RollUp(t.Context()), "the second pod waited for the first")
	check.Equal(t, usageOf(t, pool, ids[1]), [2]int64{}, "usage beside the first pod")
	release()
	check.NoError(t, testkit.Receive(t, done, "the first pod rolls up"))
	flush(t, second)
	for id, want := range map[uuid.UUID][2]int64{ids[0]: {2, 0}, ids[1]: {1, 0}} {
		check.Equal(t, usageOf(t, pool, id), want, "usage")
	}
}

func TestBadBatchIsSkippedAndAllOthersAreAdded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage string
		added  int64 // requests of the batch's first key
	}{
		"arrays of different lengths": {"requests = '{1}'", 0},
		"a count is missing":          {"requests = '{1,NULL}'", 1},
		"a sum out of range": {`requests = '{1,9223372036854775807}',
			keys = keys[1:1] || (SELECT first.keys FROM key_usage_batches first WHERE first.batch = 1)`, 1},
		"a time out of range": {"last_used = '{1,9223372036854775807}'", 1},
	} {
		t.Run(name, func(t *testing.T) {
			pool := testkit.Database(t)
			ids := makeKeys(t, pool)[:3]
			registry := prometheus.NewRegistry()
			meter := usage.NewMeter(pool, patient(registry))
			writeBatches(t, meter, 2, ids[0])
			writeBatches(t, meter, 1, ids[1], ids[2])
			writeBatches(t, meter, 2, ids[0])
			testkit.Exec(t, pool, "UPDATE key_usage_batches SET "+c.damage+" WHERE batch = 3")
			first := testkit.Get[uuid.UUID](t, pool, "SELECT keys[1] FROM key_usage_batches WHERE batch = 3")
			want := map[uuid.UUID][2]int64{ids[0]: {4, 0}, ids[1]: {}, ids[2]: {}}
			want[first] = [2]int64{c.added, 0}
			for range 2 { // the second has nothing to do
				check.NoError(t, meter.RollUp(t.Context()))
				for id, requests := range want {
					check.Equal(t, usageOf(t, pool, id), requests, "usage")
				}
				check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM key_usage_batches"), 1, "batches kept")
				for metricName, want := range map[string]float64{
					"examprep_key_usage_skipped_batches":          1,
					"examprep_key_usage_oldest_batch_age_seconds": 0,
					"examprep_key_usage_roll_up_failures_total":   1,
				} {
					check.Equal(t, testkit.Metric(t, registry, metricName, nil), want, "%s", metricName)
				}
			}
		})
	}
}

// refuse has the database refuse to write to a table what the condition holds for, until allow.
func refuse(t *testing.T, pool *pgxpool.Pool, name, event, condition string) (allow func()) {
	t.Helper()
	testkit.Exec(t, pool, fmt.Sprintf(`
		CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
		CREATE TRIGGER refused BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION refuse()`, event, name, condition))
	return func() {
		t.Helper()
		testkit.Exec(t, pool, "DROP TRIGGER refused ON "+name)
	}
}

func TestFailedRollUpIsCountedOnceAndKeepsTheBatches(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	registry := prometheus.NewRegistry()
	meter := usage.NewMeter(pool, patient(registry))
	allow := refuse(t, pool, "key_usage", "INSERT", "true")
	meter.Count(ids[0], true)
	write(t, meter)
	if meter.RollUp(t.Context()) == nil {
		t.Error("the usage was not refused: the test proves nothing")
	}
	check.Equal(t, testkit.Metric(t, registry, "examprep_key_usage_roll_up_failures_total", nil), 1, "failures to add usage")
	allow()
	flush(t, meter)
	check.Equal(t, usageOf(t, pool, ids[0]), [2]int64{1, 0}, "usage")
}

func TestARollUpThatItsCallerEndsIsNoFailure(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	cfg := patient(registry)
	cfg.Now = c.now
	meter := usage.NewMeter(pool, cfg)
	writeBatches(t, meter, 1, ids[0])
	blockUsage(t, pool, ids[0], c.now())
	giveUp(t, pool, meter.RollUp)
	check.Equal(t, testkit.Metric(t, registry, "examprep_key_usage_roll_up_failures_total", nil), 0, "failures to add usage")
}

func TestTheAgeOfWhatWaitsForARollUpIsTold(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	cfg := patient(registry)
	cfg.Now = c.now
	meter := usage.NewMeter(pool, cfg)
	told := func(when string, least, most float64) {
		t.Helper()
		if got := testkit.Metric(t, registry, "examprep_key_usage_oldest_batch_age_seconds", nil); got < least || got > most {
			t.Errorf("%s: the oldest is %v s old, want %v to %v", when, got, least, most)
		}
	}
	unknown := func(when string) {
		t.Helper()
		if got := testkit.Metric(t, registry, "examprep_key_usage_oldest_batch_age_seconds", nil); !math.IsNaN(got) {
			t.Errorf("%s: the oldest is %v s old, want that nobody knows", when, got)
		}
	}
	unknown("before a look")
	const hour, more = 3600, 1800 // more is for a machine that stands still
	writeBatches(t, meter, 1, ids[0])
	testkit.Exec(t, pool, "UPDATE key_usage_batches SET written_at = written_at - interval '1 hour'")
	writeBatches(t, meter, 1, ids...)
	allow := refuse(t, pool, "key_usage", "INSERT", "true")
	if meter.RollUp(t.Context()) == nil {
		t.Fatal("the usage was not refused: the test proves nothing")
	}
	told("where roll-ups fail", hour, hour+more)
	c.set(c.now().Add(time.Hour))
	unknown("an hour after the last look") // others may have rolled it up
	allow()
	flush(t, meter)
	told("where all is rolled up", 0, 0)
}
