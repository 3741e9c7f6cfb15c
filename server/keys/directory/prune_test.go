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
	if most := testkit.Get[int](t, pool, "SELECT max(rows) FROM portions"); most > 1000 {
		t.Errorf("one statement deleted %d changes", most)
	}
}

func TestAFailedDeletionOfOldChangesDelaysNoLease(t *testing.T) {
	pool := testkit.Database(t)
	exec(t, pool, "INSERT INTO key_changes VALUES (1000000000000000)")
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

// TestAnOldRowInTroubleKeepsNoOther deletes old changes and pods of which one cannot be deleted.
func TestAnOldRowInTroubleKeepsNoOther(t *testing.T) {
	for _, row := range []struct{ table, column, value string }{
		{"key_changes", "number", "1000000000000777"},
		{"api_pods", "id", "00000000-0000-0000-0000-000000000007"},
	} {
		for _, trouble := range testkit.Troubles() {
			t.Run(row.table+" "+string(trouble), func(t *testing.T) {
				pool := testkit.Database(t)
				exec(t, pool, "INSERT INTO key_changes SELECT 1000000000000000 + n FROM generate_series(1, 2500) n")
				exec(t, pool, `INSERT INTO api_pods (id, applied, lost_at)
					SELECT ('00000000-0000-0000-0000-00000000000' || n)::uuid, 0, now() - interval '2 days' FROM generate_series(1, 9) n`)
				end := trouble.Begin(t, pool, row.table, row.column, row.value)
				clock := gatetest.NewClock()
				start(t, pool, directory.Config{Clock: clock.Read, Timings: busy()})
				left := func(changes, pods int) {
					t.Helper()
					clock.Pass(10 * time.Minute)
					testkit.Eventually(t, "the other rows are deleted", func() bool {
						return testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes WHERE number < 1000000000010000") == changes &&
							testkit.Get[int](t, pool, "SELECT count(*) FROM api_pods WHERE lost_at IS NOT NULL") == pods
					})
				}
				switch {
				case trouble == testkit.Slow:
					left(0, 0)
				case row.table == "key_changes":
					left(1, 0)
				default:
					left(0, 1)
				}
				end()
				left(0, 0)
			})
		}
	}
}
