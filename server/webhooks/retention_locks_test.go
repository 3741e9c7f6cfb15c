package webhooks

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAVacuumGivesWayToTheKeeperAndNobodyWaitsMeanwhile holds the lock that a vacuum holds. PostgreSQL looks for an
// autovacuum to cancel when somebody has waited for deadlock_timeout.
func TestAVacuumGivesWayToTheKeeperAndNobodyWaitsMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := weekOf(time.Now()).Add(20 * partitionWeek)
	vacuum := testkit.Begin(t, b.pool, "LOCK TABLE webhook_deliveries_default IN SHARE UPDATE EXCLUSIVE MODE")
	kept := make(chan error, 1)
	go func() { kept <- b.keeper(now).once(t.Context()) }()
	b.until(t, 1, `SELECT count(*) FROM pg_locks WHERE relation = 'webhook_deliveries_default'::regclass AND NOT granted
		AND clock_timestamp() - waitstart > current_setting('deadlock_timeout')::interval`)
	b.told(t, now, "pending")
	testkit.Release(t, vacuum)
	if err := <-kept; err != nil {
		t.Error(err)
	}
	b.until(t, 0, "SELECT count(*) FROM webhook_deliveries_default")
}

// TestAWeekThatHasBegunGetsItsPartitionBesideThoseWhoWriteToIt: what is on its way to the default partition when another
// one takes its place must not be refused there.
func TestAWeekThatHasBegunGetsItsPartitionBesideThoseWhoWriteToIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.endpoint(t, "https://127.0.0.1:1/")
	for range 5 {
		b.addThisWeekInUse(t)
	}
}

func (b *bench) addThisWeekInUse(t *testing.T) {
	t.Helper()
	now := time.Now()
	for _, kind := range partitionKinds() {
		testkit.Exec(t, b.pool, "DROP TABLE IF EXISTS webhook_"+kind+"_"+weekOf(now).Format("20060102"))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers errgroup.Group
	for range 4 {
		writers.Go(func() error {
			for ctx.Err() == nil {
				if _, err := b.pool.Exec(context.WithoutCancel(ctx), "SELECT webhook_record_event(uuidv7(), 'mock_attempt.scored', NULL, '{}')"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	testkit.Eventually(t, "somebody writes", func() bool { return testkit.Get[int](t, b.pool, "SELECT count(*) FROM webhook_deliveries_default") > 0 })
	if err := b.keeper(now).insist(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if err := writers.Wait(); err != nil {
		t.Fatalf("recording an event: %v", err)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM webhook_deliveries_default"); n != 0 {
		t.Errorf("%d deliveries are in no partition of their week", n)
	}
}

// TestRetiringEventsReadsTheBacklogNotTwice: what it reads while it has the events for itself must not grow with what is
// pending.
func TestRetiringEventsReadsTheBacklogNotTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek)
	keep(t, b.keeper(start))
	b.told(t, start, "delivered")
	const pending = 5000
	testkit.Exec(t, b.pool, `INSERT INTO webhook_deliveries (id, event_id, endpoint_id)
		SELECT at, s.at, gen_random_uuid()
		FROM (SELECT uuidv7_at($1::timestamptz + i * interval '1 ms') AS at FROM generate_series(1, $2::int) i) s`,
		start.Add(2*partitionWeek), pending)
	tx := testkit.Begin(t, b.pool, "SELECT webhook_retire_partition('deliveries', name) FROM webhook_partitions WHERE kind = 'deliveries' AND upper IS NOT NULL AND upper <= uuidv7_at('"+
		start.Add(partitionWeek).Format(time.RFC3339)+"')")
	const read = "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables WHERE relname ~ '^webhook_deliveries_'"
	var before, after int
	check.NoError(t, tx.QueryRow(t.Context(), read).Scan(&before))
	if outcome := testkit.Get[string](t, tx, "SELECT webhook_retire_partition('events', $1)", "webhook_events_"+start.Format("20060102")); outcome != "retired" {
		t.Fatalf("got %q, want it retired", outcome)
	}
	check.NoError(t, tx.QueryRow(t.Context(), read).Scan(&after))
	if rows := after - before; rows > pending+pending/10 {
		t.Errorf("%d rows were read, of %d that are pending", rows, pending)
	}
}

func TestADeliveryThatIsPendingForEverEndsAWeekAfterAllElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek)
	keep(t, b.keeper(start))
	stuck, waiting := start, start.Add(time.Hour)
	b.told(t, stuck, "pending")
	b.told(t, waiting, "pending")
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET relay_at = now() - interval '1 day' WHERE id = $1", firstID(waiting))
	b.told(t, start.Add(-10*365*24*time.Hour), "pending") // goes with the first partition
	k := b.keeper(start.Add(partitionWeek + DefaultRetention + pendingGrace))
	keep(t, k)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND last_failure = 'cancelled' AND finished_at IS NOT NULL AND id = $1", firstID(stuck))
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND id = $1", firstID(waiting)) // no worker has looked at it
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET relay_at = now() WHERE id = $1", firstID(waiting))
	keep(t, k)
	b.until(t, 0, "SELECT (SELECT count(*) FROM webhook_deliveries) + (SELECT count(*) FROM webhook_attempts) + (SELECT count(*) FROM webhook_events)")
}

func TestWhatSomebodyElseHasDetachedIsNotDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	start := weekOf(time.Now()).Add(20 * partitionWeek)
	keep(t, b.keeper(start))
	b.told(t, start, "delivered")
	archive := "webhook_events_" + start.Format("20060102")
	testkit.Exec(t, b.pool, "ALTER TABLE webhook_events DETACH PARTITION "+archive)
	keep(t, b.keeper(start.Add(partitionWeek+DefaultRetention)))
	b.until(t, 1, "SELECT count(*) FROM "+archive)
	b.until(t, 0, "SELECT count(*) FROM pg_class WHERE relname ~ '^webhook_.*_retired$'")
}

func TestAWeekThatIsTooMuchToMoveStaysInTheDefaultPartition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := weekOf(time.Now()).Add(20 * partitionWeek)
	const strays = 10_001
	testkit.Exec(t, b.pool, `INSERT INTO webhook_events (id, kind, body)
		SELECT uuidv7_at($1::timestamptz + i * interval '1 ms'), 'mock_attempt.scored', '{}' FROM generate_series(1, $2::int) i`, now, strays)
	var log bytes.Buffer
	k := b.keeper(now)
	k.logger = slog.New(slog.NewTextHandler(&log, nil))
	reader := testkit.Begin(t, b.pool, "LOCK TABLE webhook_events_default IN ACCESS SHARE MODE") // it takes no lock for what it cannot do
	for range 2 {
		if err := k.addWeek(t.Context(), "events", now); err != nil {
			t.Error(err)
		}
	}
	testkit.Release(t, reader)
	keep(t, k)
	if told := strings.Count(log.String(), "level=WARN"); told != 1 {
		t.Errorf("it was told %d times, want once:\n%s", told, log.String())
	}
	b.until(t, strays, "SELECT count(*) FROM webhook_events_default")
}
