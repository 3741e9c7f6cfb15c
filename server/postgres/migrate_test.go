package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/postgrestest"
)

// TestMigrateIsSafeTwiceAndFromTwoPodsAtOnce begins with nothing: those that wait must not hold up an index that is built
// CONCURRENTLY.
func TestMigrateIsSafeTwiceAndFromTwoPodsAtOnce(t *testing.T) {
	url := postgrestest.Empty(t)
	for range 2 {
		var pods errgroup.Group
		for range 4 {
			pods.Go(func() error { return postgres.Migrate(t.Context(), url, postgres.Sandbox) })
		}
		if err := pods.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if !valid(t, connect(t, url), "api_keys_live") {
		t.Error("an index is not valid")
	}
}

func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// valid reports whether an index is there and serves queries.
func valid(t *testing.T, pool *pgxpool.Pool, index string) bool {
	t.Helper()
	var is bool
	if err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid)", index).Scan(&is); err != nil {
		t.Fatal(err)
	}
	return is
}

// migrated returns a database with the migrations up to one of them.
func migrated(t *testing.T, version int64) (url string, pool *pgxpool.Pool) {
	t.Helper()
	url = postgrestest.Empty(t)
	if err := postgres.MigrateTo(t.Context(), url, version); err != nil {
		t.Fatal(err)
	}
	return url, connect(t, url)
}

// begin runs a statement in a transaction that stays open.
func begin(t *testing.T, pool *pgxpool.Pool, statement string) pgx.Tx {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // it must not wait for others
	defer cancel()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
	return tx
}

// waiting returns the process that waits for a lock in pool's database; 0 for none.
func waiting(t *testing.T, pool *pgxpool.Pool) (pid int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestAnIndexOnATableInUseIsBuiltBesideItsWriters ends a migration that waits for a writer, and runs it once more.
func TestAnIndexOnATableInUseIsBuiltBesideItsWriters(t *testing.T) {
	url, pool := migrated(t, 8)
	const write = "UPDATE api_keys SET name = name"
	writer := begin(t, pool, write)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- postgres.Migrate(ctx, url, postgres.Sandbox) }()
	postgrestest.Eventually(t, "the migration waits", func() bool { return waiting(t, pool) != 0 })
	if err := begin(t, pool, write).Rollback(t.Context()); err != nil {
		t.Errorf("another writer, meanwhile: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("the migration did not wait: the test proves nothing")
	}
	postgrestest.Eventually(t, "the server has noticed", func() bool { return waiting(t, pool) == 0 })
	if err := writer.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if valid(t, pool, "api_keys_live") {
		t.Fatal("the index is whole: the test proves nothing")
	}
	for range 2 {
		if err := postgres.Migrate(t.Context(), url, postgres.Sandbox); err != nil {
			t.Fatal(err)
		}
		if !valid(t, pool, "api_keys_live") {
			t.Error("the index is not valid")
		}
	}
}

// TestAMigrationGivesWayToWhoHoldsALock watches it wait, give up and try again in another session.
func TestAMigrationGivesWayToWhoHoldsALock(t *testing.T) {
	url := postgrestest.URL(t)
	pool := connect(t, url)
	holder := begin(t, pool, "LOCK TABLE goose_db_version IN ACCESS EXCLUSIVE MODE")
	ended := make(chan error)
	go func() { ended <- postgres.Migrate(t.Context(), url, postgres.Sandbox) }()
	var first int
	postgrestest.Eventually(t, "the migration waits", func() bool { first = waiting(t, pool); return first != 0 })
	postgrestest.Eventually(t, "another try waits", func() bool { pid := waiting(t, pool); return pid != 0 && pid != first })
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnOlderSchemaIsRefusedAndANewerOneIsNot(t *testing.T) {
	pool := postgrestest.New(t)
	if err := postgres.CheckSchema(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	var last int64
	if err := pool.QueryRow(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version RETURNING version_id").Scan(&last); err != nil {
		t.Fatal(err)
	}
	if err := postgres.CheckSchema(t.Context(), pool); err != nil {
		t.Errorf("a newer one: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id >= $1", last-1); err != nil {
		t.Fatal(err)
	}
	var outdated *postgres.SchemaError
	if err := postgres.CheckSchema(t.Context(), pool); !errors.As(err, &outdated) || outdated.Database != last-2 || outdated.Program != last-1 {
		t.Errorf("an older one: got %v, want a SchemaError of %d and %d", err, last-2, last-1)
	}
}

func TestAnotherEnvironmentIsRefused(t *testing.T) {
	url := postgrestest.URL(t)
	var mismatch *postgres.EnvironmentError
	if err := postgres.Migrate(t.Context(), url, postgres.Production); !errors.As(err, &mismatch) {
		t.Fatalf("migrate: got %v, want an EnvironmentError", err)
	}
	pool, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.CheckEnvironment(t.Context(), pool, postgres.Sandbox); err != nil {
		t.Fatal(err)
	}
	if err := postgres.CheckEnvironment(t.Context(), pool, postgres.Production); !errors.As(err, &mismatch) {
		t.Fatalf("check: got %v, want an EnvironmentError", err)
	}
	if mismatch.Database != postgres.Sandbox {
		t.Errorf("database environment = %q, want %q", mismatch.Database, postgres.Sandbox)
	}
}

// A chart of an older version that is installed over a newer one runs its own migration.
func TestAnOlderMigrationLeavesANewerSchemaAlone(t *testing.T) {
	url := postgrestest.URL(t)
	pool, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	env, err := postgres.ReadEnvironment(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	var newest int64
	if err := pool.QueryRow(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied)
		SELECT max(version_id) + 1, true FROM goose_db_version RETURNING version_id`).Scan(&newest); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), url, env); err != nil {
		t.Errorf("the older program's migration: %v", err)
	}
	var found int64
	if err := pool.QueryRow(t.Context(), "SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&found); err != nil {
		t.Fatal(err)
	}
	if found != newest {
		t.Errorf("the schema was at %d, the older migration left it at %d", newest, found)
	}
}
