package directory_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestOldChangesAreDeletedInPortions(t *testing.T) {
	pool := testkit.Database(t)
	exec(t, pool, "INSERT INTO key_changes SELECT 1000000000000000 + n FROM generate_series(1, 25000) n")
	exec(t, pool, "CREATE TABLE portions AS SELECT 0::bigint AS rows")
	exec(t, pool, "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO portions SELECT count(*) FROM gone; RETURN NULL; END $$")
	exec(t, pool, "CREATE TRIGGER note AFTER DELETE ON key_changes REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note()")
	clock := gatetest.NewClock()
	start(t, pool, directory.Config{Clock: clock.Read, Timings: busy()})
	clock.Pass(10 * time.Minute)
	testkit.Eventually(t, "one change is left", func() bool {
		return testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes") == 1
	})
	if most := testkit.Get[int](t, pool, "SELECT max(rows) FROM portions"); most > 10_000 {
		t.Errorf("one statement deleted %d changes", most)
	}
}

func TestAFailedDeletionOfOldChangesDelaysNoLease(t *testing.T) {
	pool := testkit.Database(t)
	exec(t, pool, "CREATE SEQUENCE tries")
	exec(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('tries'); RAISE EXCEPTION 'refused'; END $$`)
	exec(t, pool, "CREATE TRIGGER refuse BEFORE DELETE ON key_changes FOR EACH STATEMENT EXECUTE FUNCTION refuse()")
	var log testkit.Record
	clock := gatetest.NewClock()
	start(t, pool, directory.Config{Clock: clock.Read, Timings: busy(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	connection := func() int {
		return testkit.Get[int](t, pool, `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'examprep key directory'`)
	}
	renewals := func() int64 { return testkit.Get[int64](t, pool, "SELECT renewals FROM api_pods") }
	before := connection()
	clock.Pass(10 * time.Minute)
	testkit.Eventually(t, "a deletion is tried", func() bool { return testkit.Get[bool](t, pool, "SELECT is_called FROM tries") })
	renewed := renewals()
	testkit.Eventually(t, "the pod renews", func() bool { return renewals() > renewed+3 })
	testkit.Eventually(t, "the failure is logged", func() bool { return strings.Contains(log.String(), "refused") })
	check.Equal(t, connection(), before, "the pod's connection")
	check.Equal(t, testkit.Get[int](t, pool, "SELECT last_value FROM tries"), 1, "tries")
}
