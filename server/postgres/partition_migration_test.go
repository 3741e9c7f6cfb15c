package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/postgrestest"
)

// The statements of the workers before webhook_deliveries was partitioned, which go on while others are upgraded.
const (
	leaseBefore = `WITH idle AS (
			SELECT d.id FROM webhook_deliveries d
			WHERE d.id IN (SELECT id FROM webhook_deliveries WHERE state = 'pending' AND relay_at <= now() ORDER BY relay_at LIMIT 20)
			  AND d.state = 'pending' AND d.next_attempt_at <= now()
			  AND (d.lease_until IS NULL OR d.lease_until <= now()) AND d.attempt < 6
			FOR UPDATE SKIP LOCKED
		), leased AS (
			UPDATE webhook_deliveries d
			SET attempt = d.attempt + 1, lease = $1::uuid, lease_until = now() + interval '1 minute',
				relay_at = greatest(d.relay_at, now() + interval '1 minute')
			FROM idle, webhook_endpoints e
			WHERE d.id = idle.id AND e.id = d.endpoint_id AND e.status = 'enabled'
			RETURNING d.id, d.event_id)
		SELECT coalesce(array_agg(l.id), '{}') FROM leased l JOIN webhook_events ev ON ev.id = l.event_id`
	completeBefore = `UPDATE webhook_deliveries d SET state = 'delivered', lease = NULL, lease_until = NULL, finished_at = now()
		FROM (SELECT unnest($1::uuid[]) AS id) u WHERE d.id = u.id AND d.lease = $2::uuid AND d.state = 'pending'`
)

// record records events until ctx ends, and says how many.
func record(ctx context.Context, pool *pgxpool.Pool, recorded *atomic.Int64) error {
	for ctx.Err() == nil {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		if _, err := pool.Exec(context.WithoutCancel(ctx), "SELECT webhook_record_event($1, 'mock_attempt.scored', NULL, '{}')", id); err != nil {
			return err
		}
		recorded.Add(1)
	}
	return nil
}

// deliver does what a worker did, until ctx has ended and nothing is left to do.
func deliver(ctx context.Context, pool *pgxpool.Pool, delivered *atomic.Int64) error {
	work := context.WithoutCancel(ctx)
	for {
		last := ctx.Err() != nil
		var ids []uuid.UUID
		lease := uuid.New()
		if err := pool.QueryRow(work, leaseBefore, lease).Scan(&ids); err != nil {
			return err
		}
		done, err := pool.Exec(work, completeBefore, ids, lease)
		if err != nil {
			return err
		}
		delivered.Add(done.RowsAffected())
		if last && len(ids) == 0 {
			return nil
		}
	}
}

// TestDeliveriesArePartitionedBesideThoseWhoWriteThem migrates while events are recorded and delivered by pods of the
// version before, and holds a table's lock until the migration has given way.
func TestDeliveriesArePartitionedBesideThoseWhoWriteThem(t *testing.T) {
	url, pool := migrated(t, 9)
	if _, err := pool.Exec(t.Context(), `INSERT INTO webhook_endpoints (id, url, events)
		VALUES (gen_random_uuid(), 'https://example.com/', '{mock_attempt.scored}')`); err != nil {
		t.Fatal(err)
	}
	traffic, stop := context.WithCancel(t.Context())
	defer stop()
	var pods errgroup.Group
	var recorded, delivered atomic.Int64
	for range 2 {
		pods.Go(func() error { return record(traffic, pool, &recorded) })
		pods.Go(func() error { return deliver(traffic, pool, &delivered) })
	}
	postgrestest.Eventually(t, "some are delivered", func() bool { return delivered.Load() > 100 })
	reader := begin(t, pool, "LOCK TABLE webhook_events IN ACCESS SHARE MODE") // somebody's dump
	ended := make(chan error)
	go func() { ended <- postgres.Migrate(t.Context(), url, postgres.Sandbox) }()
	postgrestest.Eventually(t, "the migration waits", func() bool { return waitsFor(t, pool, "webhook_events") })
	before := recorded.Load()
	postgrestest.Eventually(t, "events go on being recorded", func() bool { return recorded.Load() > before+100 })
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	before = delivered.Load()
	postgrestest.Eventually(t, "deliveries go on", func() bool { return delivered.Load() > before+100 })
	stop()
	if err := pods.Wait(); err != nil {
		t.Errorf("a statement failed: %v", err)
	}
	if recorded.Load() != delivered.Load() {
		t.Errorf("%d events were recorded, %d delivered", recorded.Load(), delivered.Load())
	}
	var partitioned, elsewhere, left int64
	if err := pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM pg_class WHERE relname IN ('webhook_events', 'webhook_deliveries', 'webhook_tries') AND relkind = 'p'),
		(SELECT count(*) FROM webhook_events_default) + (SELECT count(*) FROM webhook_deliveries_default),
		(SELECT count(*) FROM pg_constraint WHERE conname ~ '^webhook_.*_until$')`).Scan(&partitioned, &elsewhere, &left); err != nil {
		t.Fatal(err)
	}
	if partitioned != 3 || elsewhere != 0 || left != 0 {
		t.Errorf("%d of 3 tables are partitioned, %d rows are in no partition of their time, %d constraints are left", partitioned, elsewhere, left)
	}
}

// waitsFor reports whether somebody waits to have a table alone.
func waitsFor(t *testing.T, pool *pgxpool.Pool, table string) (waits bool) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted
		AND mode = 'AccessExclusiveLock')`, table).Scan(&waits); err != nil {
		t.Fatal(err)
	}
	return waits
}

// TestAnInterruptedPartitioningIsFinished runs both migrations again, as after a failure behind each of their steps.
func TestAnInterruptedPartitioningIsFinished(t *testing.T) {
	url, pool := migrated(t, 10)
	for _, again := range []int64{10, 11} {
		if _, err := pool.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id = $1", again); err != nil {
			t.Fatal(err)
		}
		if err := postgres.MigrateTo(t.Context(), url, 11); err != nil {
			t.Fatal(err)
		}
	}
	if err := postgres.Migrate(t.Context(), url, postgres.Sandbox); err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{"webhook_deliveries_pkey", "webhook_deliveries_due", "webhook_deliveries_by_hand", "webhook_deliveries_again", "webhook_tries_pkey"} {
		if !valid(t, pool, index) {
			t.Errorf("%s is not valid", index)
		}
	}
}

// TestAPartitioningThatWasGivenUpRefusesNothingWhenItIsRunAgain leaves the bounds that an abandoned run would have left,
// long past, in a table that went on being written to until they refused it.
func TestAPartitioningThatWasGivenUpRefusesNothingWhenItIsRunAgain(t *testing.T) {
	url, pool := migrated(t, 10)
	for _, table := range []string{"webhook_events", "webhook_deliveries"} {
		if _, err := pool.Exec(t.Context(), fmt.Sprintf(`DO $$ BEGIN EXECUTE format(
			'ALTER TABLE %[1]s ADD CONSTRAINT %[1]s_until CHECK (id < %%L::uuid)', webhook_id_at(now() - interval '1 hour')); END $$`, table)); err != nil {
			t.Fatal(err)
		}
	}
	const event = "SELECT webhook_record_event(webhook_new_id(), 'mock_attempt.scored', NULL, '{}')"
	if _, err := pool.Exec(t.Context(), event); err == nil {
		t.Fatal("the bound refuses nothing: the test proves nothing")
	}
	if err := postgres.Migrate(t.Context(), url, postgres.Sandbox); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), event); err != nil {
		t.Error(err)
	}
	var short int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_partitions
		WHERE name ~ '_first$' AND upper <= webhook_id_at(now() + interval '7 days')`).Scan(&short); err != nil {
		t.Fatal(err)
	}
	if short != 0 {
		t.Errorf("%d of the first partitions end within a week", short)
	}
}

// TestNothingIsRefusedBetweenTheMigrations: whatever waits long comes before a bound does.
func TestNothingIsRefusedBetweenTheMigrations(t *testing.T) {
	_, pool := migrated(t, 10)
	var bounds int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_constraint WHERE conname ~ '^webhook_.*_until$'").Scan(&bounds); err != nil || bounds != 0 {
		t.Errorf("%d bounds, %v", bounds, err)
	}
}

// TestThePartitioningWaitsForAVacuumAsLongAsItTakesToCancelIt holds the lock that a vacuum holds. PostgreSQL looks for an
// autovacuum to cancel when somebody has waited for deadlock_timeout, and writers must not wait meanwhile.
func TestThePartitioningWaitsForAVacuumAsLongAsItTakesToCancelIt(t *testing.T) {
	for before, table := range map[int64]string{9: "webhook_deliveries", 10: "webhook_events"} {
		t.Run(table, func(t *testing.T) {
			url, pool := migrated(t, before)
			vacuum := begin(t, pool, "LOCK TABLE "+table+" IN SHARE UPDATE EXCLUSIVE MODE")
			ended := make(chan error)
			go func() { ended <- postgres.Migrate(t.Context(), url, postgres.Sandbox) }()
			postgrestest.Eventually(t, "it has waited for long enough", func() bool { return waitsLong(t, pool, table) })
			if err := begin(t, pool, "UPDATE "+table+" SET id = id").Rollback(t.Context()); err != nil {
				t.Errorf("a writer, meanwhile: %v", err)
			}
			if waitsFor(t, pool, table) {
				t.Error("it waits to have the table alone: so do all others")
			}
			if err := vacuum.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// waitsLong reports whether somebody has waited for a table for longer than deadlock_timeout.
func waitsLong(t *testing.T, pool *pgxpool.Pool, table string) (waits bool) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted
		AND clock_timestamp() - waitstart > current_setting('deadlock_timeout')::interval)`, table).Scan(&waits); err != nil {
		t.Fatal(err)
	}
	return waits
}
