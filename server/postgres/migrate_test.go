package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestMigrateIsSafeTwiceAndFromTwoPodsAtOnce(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	for range 2 {
		var pods errgroup.Group
		for range 4 {
			pods.Go(func() error { return postgres.Migrate(t.Context(), url, postgres.Sandbox) })
		}
		check.NoError(t, pods.Wait())
	}
	if _, err := postgres.ReadInstallation(t.Context(), testkit.Open(t, url), postgres.Sandbox); err != nil {
		t.Error(err)
	}
}

// waiting returns the process that waits for a lock in pool's database; 0 for none.
func waiting(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return testkit.Get[int](t, pool, `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// TestAMigrationGivesWayToWhoHoldsALock watches it wait, give up and try again in another session.
func TestAMigrationGivesWayToWhoHoldsALock(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	pool := testkit.Open(t, url)
	holder := testkit.Begin(t, pool, "LOCK TABLE goose_db_version IN ACCESS EXCLUSIVE MODE")
	ended := make(chan error, 1)
	go func() { ended <- postgres.Migrate(t.Context(), url, postgres.Sandbox) }()
	var first int
	testkit.Eventually(t, "the migration waits", func() bool { first = waiting(t, pool); return first != 0 })
	testkit.Eventually(t, "another try waits", func() bool { pid := waiting(t, pool); return pid != 0 && pid != first })
	testkit.Release(t, holder)
	if err := testkit.Receive(t, ended, "the migration ends"); err != nil {
		t.Error(err)
	}
}

func TestMigrateStoresOneInstallation(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	pool := testkit.Open(t, url)
	var schema *postgres.SchemaError
	if _, err := postgres.ReadInstallation(t.Context(), pool, ""); !errors.As(err, &schema) || schema.Database != "" {
		t.Fatalf("before: got %v, want a SchemaError that says to migrate", err)
	}
	check.NoError(t, postgres.Migrate(t.Context(), url, postgres.Production))
	first, err := postgres.ReadInstallation(t.Context(), pool, postgres.Production)
	check.NoError(t, err)
	if first.ID == uuid.Nil || first.Environment != postgres.Production {
		t.Errorf("installation = %+v", first)
	}
	check.NoError(t, postgres.Migrate(t.Context(), url, postgres.Production))
	if again, err := postgres.ReadInstallation(t.Context(), pool, ""); err != nil || again != first {
		t.Errorf("after a second run: %+v, %v; want %+v", again, err, first)
	}
}

func TestMigrateMakesPartitionsOfThisWeekAndTheNextEight(t *testing.T) {
	t.Parallel()
	pool := testkit.Open(t, testkit.DatabaseURL(t))
	kinds := testkit.List[string](t, pool, "SELECT kind FROM webhook_partitions WHERE upper > uuidv7_at(now()) GROUP BY kind HAVING count(*) = 9 ORDER BY kind")
	if want := []string{"attempts", "deliveries", "events"}; !slices.Equal(kinds, want) {
		t.Errorf("nine partitions each: %q, want %q", kinds, want)
	}
	testkit.Exec(t, pool, "SELECT webhook_record_event(uuidv7(), 'mock_attempt.scored', NULL, '{}')")
	if strays := testkit.Get[int](t, pool, "SELECT count(*) FROM webhook_events_default"); strays != 0 {
		t.Errorf("%d events of today are in the default partition", strays)
	}
}

// A database of another build is refused by Migrate and by every process, and stays as it is.
func TestDatabaseOfAnotherBuildIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, statement, digest string
	}{
		{"another digest", "UPDATE installation SET migrations = '0123456789abcdef'", "0123456789abcdef"},
		{"another digest, not finished", "UPDATE installation SET migrations = '0123456789abcdef', migrated_at = NULL", "0123456789abcdef"},
		{"no digest (220ae0e)", "ALTER TABLE installation DROP COLUMN migrations", "none"},
		{"another program's migrations", "DROP TABLE installation", "none"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := testkit.DatabaseURL(t)
			pool := testkit.Open(t, url)
			testkit.Exec(t, pool, test.statement)
			before := fingerprint(t, pool)
			_, read := postgres.ReadInstallation(t.Context(), pool, "")
			for name, err := range map[string]error{"migrate": postgres.Migrate(t.Context(), url, postgres.Sandbox), "read": read} {
				var schema *postgres.SchemaError
				if !errors.As(err, &schema) || schema.Database != test.digest || schema.Program != postgres.MigrationsDigest() {
					t.Errorf("%s: got %v, want a SchemaError for %s", name, err, test.digest)
				} else if !strings.Contains(err.Error(), "drop the database") {
					t.Errorf("%s: %q does not say what to do", name, err)
				}
			}
			if after := fingerprint(t, pool); after != before {
				t.Errorf("the database was changed:\n%s\n%s", before, after)
			}
		})
	}
}

// fingerprint describes all tables, columns and applied migrations of a database.
func fingerprint(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return testkit.Get[string](t, pool, `SELECT md5(
		(SELECT string_agg(attrelid::regclass || '.' || attname, ',' ORDER BY attrelid, attnum) FROM pg_attribute WHERE NOT attisdropped)
		|| (SELECT string_agg(version_id::text || tstamp, ',' ORDER BY id) FROM goose_db_version))`)
}

// A run that breaks off is completed by the next one; until then a process does not start.
// TestMigrateGoesOnWhereAnotherRunHasOnlyBegun: the other run has made goose's table, and no other.
func TestMigrateGoesOnWhereAnotherRunHasOnlyBegun(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	pool := testkit.Open(t, url)
	testkit.Exec(t, pool, `CREATE TABLE goose_db_version (id integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
		version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp NOT NULL DEFAULT now())`)
	testkit.Exec(t, pool, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, true)")
	check.NoError(t, postgres.Migrate(t.Context(), url, postgres.Sandbox))
}

func TestInterruptedMigrationIsCompletedByTheNext(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabase(t)
	pool := testkit.Open(t, url)
	testkit.Exec(t, pool, "CREATE TABLE webhook_endpoints ()")
	if err := postgres.Migrate(t.Context(), url, postgres.Sandbox); err == nil {
		t.Fatal("the last migration did not fail: the test proves nothing")
	}
	var schema *postgres.SchemaError
	if _, err := postgres.ReadInstallation(t.Context(), pool, postgres.Sandbox); !errors.As(err, &schema) || !strings.Contains(err.Error(), "run `examprep migrate") {
		t.Fatalf("got %v, want a SchemaError that says to migrate", err)
	}
	testkit.Exec(t, pool, "DROP TABLE webhook_endpoints")
	check.NoError(t, postgres.Migrate(t.Context(), url, postgres.Sandbox))
	if _, err := postgres.ReadInstallation(t.Context(), pool, postgres.Sandbox); err != nil {
		t.Error(err)
	}
}

func TestAnotherEnvironmentIsRefused(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	var mismatch *postgres.EnvironmentError
	if err := postgres.Migrate(t.Context(), url, postgres.Production); !errors.As(err, &mismatch) {
		t.Fatalf("migrate: got %v, want an EnvironmentError", err)
	}
	pool := testkit.Open(t, url)
	if _, err := postgres.ReadInstallation(t.Context(), pool, postgres.Sandbox); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.ReadInstallation(t.Context(), pool, postgres.Production); !errors.As(err, &mismatch) {
		t.Fatalf("check: got %v, want an EnvironmentError", err)
	}
	if mismatch.Database != postgres.Sandbox {
		t.Errorf("database environment = %q, want %q", mismatch.Database, postgres.Sandbox)
	}
}
