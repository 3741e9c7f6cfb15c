package keys_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
)

func TestUsageIsRolledUpWhereTheDatabasesURLSwitchesDescriptionsCacheOff(t *testing.T) {
	store, _, direct := newStore(t)
	id := idOf(t, store, create(t, store, keys.NewKey{}))
	cfg := direct.Config().ConnConfig
	address := addressOf(cfg, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	pool, err := postgres.Open(t.Context(), address.String()+"&description_cache_capacity=0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	meter := newMeter(pool, newClock(time.Now()))
	meter.Count(id, true)
	flush(t, meter)
	if got := usage(t, direct, id); got != [2]int64{1, 0} {
		t.Errorf("usage = %v", got)
	}
}

// allowBatches has the database refuse each roll-up of more batches, as it does where so many take too long.
func allowBatches(t *testing.T, pool *pgxpool.Pool, most int) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION refuse_many() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF (SELECT count(*) FROM taken) > %d THEN RAISE EXCEPTION 'too much at once'; END IF;
				RETURN NULL;
			END $$;
		CREATE TRIGGER bounded AFTER DELETE ON key_usage_batches REFERENCING OLD TABLE AS taken
			FOR EACH STATEMENT EXECUTE FUNCTION refuse_many()`, most)); err != nil {
		t.Fatal(err)
	}
}

// watchRollUps has the database note how many batches each roll-up takes. largest tells of the largest so far.
func watchRollUps(t *testing.T, pool *pgxpool.Pool) (largest func() int) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `
		CREATE TABLE roll_ups (batches bigint);
		CREATE FUNCTION note_roll_up() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO roll_ups SELECT count(*) FROM taken; RETURN NULL; END $$;
		CREATE TRIGGER noted AFTER DELETE ON key_usage_batches REFERENCING OLD TABLE AS taken
			FOR EACH STATEMENT EXECUTE FUNCTION note_roll_up()`); err != nil {
		t.Fatal(err)
	}
	return func() (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "SELECT max(batches) FROM roll_ups").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// rollUpBy32 has so many batches of a key written and rolled up, 32 at once and no more.
func rollUpBy32(t *testing.T, pool *pgxpool.Pool, meter *keys.Meter, id uuid.UUID, batches int) {
	t.Helper()
	largest := watchRollUps(t, pool)
	writeBatches(t, meter, batches, id)
	if err := meter.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := largest(); n != 32 {
		t.Errorf("the largest roll-up took %d batches, want 32", n)
	}
}

// writeBatches has meter write so many batches of one share, each of one request of each key.
func writeBatches(t *testing.T, meter *keys.Meter, batches int, ids ...uuid.UUID) {
	t.Helper()
	for range batches {
		for _, id := range ids {
			meter.Count(id, true)
		}
		write(t, meter)
	}
}

// ofOneShare are the keys that are rolled up together with the first.
func ofOneShare(ids []uuid.UUID) (same []uuid.UUID) {
	for _, id := range ids {
		if id[15]%8 == ids[0][15]%8 {
			same = append(same, id)
		}
	}
	return same
}

func TestABacklogThatIsTooMuchForOneStatementShrinks(t *testing.T) {
	for _, possible := range []int{1, 5} {
		t.Run(fmt.Sprintf("at most %d batches", possible), func(t *testing.T) {
			const batches = 100
			_, _, pool := newStore(t)
			ids := ofOneShare(makeKeys(t, pool))[:3]
			meter := newMeter(pool, newClock(time.Now()))
			writeBatches(t, meter, batches, ids...)
			if n := waitingBatches(t, pool); n != batches {
				t.Fatalf("%d batches wait, want %d", n, batches)
			}
			allowBatches(t, pool, possible)
			failed := 0
			for n := batches; n > 0; n = waitingBatches(t, pool) {
				if err := meter.RollUp(t.Context()); err != nil {
					failed++
				}
				if failed > 2*batches { // every second one gets somewhere, at worst
					t.Fatalf("%d batches still wait after %d failures", n, failed)
				}
			}
			if failed == 0 {
				t.Error("the database refused nothing: the test proves nothing")
			}
			for _, id := range ids {
				if got := usage(t, pool, id); got != [2]int64{batches, 0} {
					t.Errorf("usage = %v, want [%d 0]", got, batches)
				}
			}
		})
	}
}

func TestOnceTheDatabaseCanDoMoreItIsAskedForMore(t *testing.T) {
	_, _, pool := newStore(t)
	id := makeKeys(t, pool)[0]
	meter := newMeter(pool, newClock(time.Now()))
	writeBatches(t, meter, 1, id)
	allowBatches(t, pool, 0)
	for range 3 {
		if meter.RollUp(t.Context()) == nil {
			t.Fatal("it was not refused: the test proves nothing")
		}
	}
	if _, err := pool.Exec(t.Context(), "DROP TRIGGER bounded ON key_usage_batches"); err != nil {
		t.Fatal(err)
	}
	rollUpBy32(t, pool, meter, id, 200)
	if got := usage(t, pool, id); got != [2]int64{201, 0} {
		t.Errorf("usage = %v, want [201 0]", got)
	}
}

// TestARollUpTakesNoMoreThanItIsToHoweverItIsPlanned has the database believe that the table is all but empty, which it then
// joins row by row: an old transaction keeps vacuum from the rows that are gone.
func TestARollUpTakesNoMoreThanItIsToHoweverItIsPlanned(t *testing.T) {
	_, _, pool := newStore(t)
	id := makeKeys(t, pool)[0]
	meter := newMeter(pool, newClock(time.Now()))
	block(t, pool, "SELECT txid_current()")
	writeBatches(t, meter, 300, id)
	if err := meter.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "VACUUM key_usage_batches"); err != nil {
		t.Fatal(err)
	}
	rollUpBy32(t, pool, meter, id, 50)
	if got := usage(t, pool, id); got != [2]int64{350, 0} {
		t.Errorf("usage = %v, want [350 0]", got)
	}
}

func TestAProcessThatEndsRollsUpBitByBit(t *testing.T) {
	_, _, pool := newStore(t)
	id := makeKeys(t, pool)[0]
	meter := newMeter(pool, newClock(time.Now()))
	writeBatches(t, meter, 3, id)
	allowBatches(t, pool, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := meter.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := usage(t, pool, id); got != [2]int64{3, 0} {
		t.Errorf("usage = %v, want [3 0]", got)
	}
}

// TestAPodLeavesAShareToThePodThatIsRollingItUp has the first pod wait for a row that the second would have to wait for too.
func TestAPodLeavesAShareToThePodThatIsRollingItUp(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	same := ofOneShare(ids)
	other := ids[slices.IndexFunc(ids, func(id uuid.UUID) bool { return !slices.Contains(same, id) })]
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	first, second := newMeter(pool, c), newMeter(pool, c)
	writeBatches(t, first, 1, same[0])
	release := blockUsage(t, pool, same[0], c.now())
	done := make(chan error)
	go func() { done <- first.RollUp(context.WithoutCancel(t.Context())) }()
	awaitWaiting(t, pool, true)

	writeBatches(t, second, 1, same[0], same[1], other)
	if err := second.RollUp(t.Context()); err != nil {
		t.Errorf("the second pod waited for the first: %v", err)
	}
	for id, want := range map[uuid.UUID][2]int64{same[1]: {}, other: {1, 0}} {
		if got := usage(t, pool, id); got != want {
			t.Errorf("usage beside the first pod = %v, want %v", got, want)
		}
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	flush(t, second)
	for id, want := range map[uuid.UUID][2]int64{same[0]: {2, 0}, same[1]: {1, 0}, other: {1, 0}} {
		if got := usage(t, pool, id); got != want {
			t.Errorf("usage = %v, want %v", got, want)
		}
	}
}

// refuse has the database refuse to write to a table what the condition holds for, until allow.
func refuse(t *testing.T, pool *pgxpool.Pool, name, event, condition string) (allow func()) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
		CREATE TRIGGER refused BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION refuse()`, event, name, condition)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := pool.Exec(t.Context(), "DROP TRIGGER refused ON "+name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLastUsesAndUsageDoNotHoldEachOtherUp has the database refuse to note a last use, and then to add usage.
func TestLastUsesAndUsageDoNotHoldEachOtherUp(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	registry := prometheus.NewRegistry()
	meter := keys.NewMeter(pool, keys.MeterConfig{Interval: time.Hour, Registerer: registry})
	const failures = "examprep_key_usage_roll_up_failures_total"
	for _, id := range ids {
		meter.Count(id, true)
	}
	allow := refuse(t, pool, "api_keys", "UPDATE", "NEW.last_used_at IS NOT NULL")
	flush(t, meter)
	if admitted, _, _ := totals(t, pool); admitted != manyKeys {
		t.Errorf("%d requests are in the usage, want %d", admitted, manyKeys)
	}
	noted := metric(t, registry, failures)
	if touched(t, pool) != 0 || noted == 0 {
		t.Errorf("the last use of %d keys is noted after %v failures, want none after some", touched(t, pool), noted)
	}
	allow()

	refuse(t, pool, "key_usage", "INSERT", "true")
	meter.Count(ids[0], true)
	write(t, meter)
	if meter.RollUp(t.Context()) == nil {
		t.Error("the usage was not refused: the test proves nothing")
	}
	if n := touched(t, pool); n != manyKeys {
		t.Errorf("the last use of %d keys is noted, want %d", n, manyKeys)
	}
	if n := metric(t, registry, failures) - noted; n != 1 {
		t.Errorf("%v failures to add usage are told of, want 1", n)
	}
}

func TestARollUpThatItsCallerEndsIsNoFailure(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	meter := keys.NewMeter(pool, keys.MeterConfig{Interval: time.Hour, Now: c.now, Registerer: registry})
	writeBatches(t, meter, 1, ids[0])
	blockUsage(t, pool, ids[0], c.now())
	giveUp(t, pool, meter.RollUp)
	if n := metric(t, registry, "examprep_key_usage_roll_up_failures_total"); n != 0 {
		t.Errorf("%v failures, want none", n)
	}
}

func TestTheAgeOfWhatWaitsForARollUpIsTold(t *testing.T) {
	_, _, pool := newStore(t)
	ids := makeKeys(t, pool)
	c := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	registry := prometheus.NewRegistry()
	meter := keys.NewMeter(pool, keys.MeterConfig{Interval: time.Hour, Now: c.now, Registerer: registry})
	told := func(when string, least, most float64) {
		t.Helper()
		if got := metric(t, registry, "examprep_key_usage_oldest_batch_age_seconds"); got < least || got > most {
			t.Errorf("%s: the oldest is %v s old, want %v to %v", when, got, least, most)
		}
	}
	unknown := func(when string) {
		t.Helper()
		if got := metric(t, registry, "examprep_key_usage_oldest_batch_age_seconds"); !math.IsNaN(got) {
			t.Errorf("%s: the oldest is %v s old, want that nobody knows", when, got)
		}
	}
	unknown("before a look")
	const hour, more = 3600, 1800 // more is for a machine that stands still
	writeBatches(t, meter, 1, ids[0])
	if _, err := pool.Exec(t.Context(), "UPDATE key_usage_batches SET written_at = written_at - interval '1 hour'"); err != nil {
		t.Fatal(err)
	}
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
