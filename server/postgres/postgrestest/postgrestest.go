// Package postgrestest gives each test a migrated PostgreSQL database of its own, on the real server that
// EXAMPREP_TEST_DATABASE_URL names, in the environment or in .dev/test.env (see testenv). It fails the test, never skips
// it, when there is none.
package postgrestest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/ports"
	"examprep.dev/server/testkit/testenv"
)

// ServerVariable names the variable that holds the test server's URL, with the right to create databases.
const ServerVariable = testenv.Database

// New returns a pool on a fresh, migrated sandbox database.
func New(t testing.TB, session ...postgres.Setting) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), URL(t), session...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URL returns the address of a fresh, migrated sandbox database with an installation id of its own.
func URL(t testing.TB) string {
	t.Helper()
	url := own.create(t, serverURL(t), true)
	exec(t, url, "UPDATE installation SET id = gen_random_uuid()") // the template's is not its own
	return url
}

// Empty returns the address of a fresh database that is not migrated.
func Empty(t testing.TB) string {
	t.Helper()
	return own.create(t, serverURL(t), false)
}

func serverURL(t testing.TB) string {
	t.Helper()
	return testenv.Get(t, ServerVariable)
}

func exec(t testing.TB, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("reach test database server: %v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

const (
	// look is how often Eventually looks.
	look = 5 * time.Millisecond
	// patience bounds its wait, which is never waited out when all is well.
	patience = 30 * time.Second
)

// Eventually waits until condition holds. It is for what another process or goroutine does in its own time and gives no
// signal of; what is what is waited for, told when it never happens.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// RowsRead is how many rows of a table and its partitions a transaction's session has read and not told the server's
// statistics of yet: what a statement read is the difference.
func RowsRead(t testing.TB, tx pgx.Tx, table string) (n int) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int
		FROM pg_stat_xact_user_tables WHERE relid IN (SELECT $1::regclass UNION ALL SELECT relid FROM pg_partition_tree($1::regclass))`,
		table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// CutOff takes the test's database away from everybody, as a failover does: when it returns, all connections have ended
// and no new one is let in. Restore lets them in again and leaves pool without a connection that was ended, so that
// the test's own statements, which do not try twice, may use it. A test that ends before need not restore.
func CutOff(t testing.TB, pool *pgxpool.Pool) (restore func()) {
	t.Helper()
	ctx := t.Context()
	admin, err := pgx.Connect(ctx, serverURL(t))
	if err != nil {
		t.Fatalf("reach test database server: %v", err)
	}
	t.Cleanup(func() { _ = admin.Close(context.WithoutCancel(ctx)) })
	name := pool.Config().ConnConfig.Database
	allow := func(yes string) {
		t.Helper()
		if _, err := admin.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" ALLOW_CONNECTIONS "+yes); err != nil {
			t.Fatal(err)
		}
	}
	none := func(query string, args ...any) bool {
		t.Helper()
		var count int
		if err := admin.QueryRow(ctx, query, args...).Scan(&count); err != nil {
			t.Fatal(err)
		}
		return count == 0
	}
	allow("false")
	// A backend that was starting may have been let in, and is not in pg_stat_activity until it has started. Until then
	// it holds a lock on its database.
	var starting []int32
	if err := admin.QueryRow(ctx, "SELECT coalesce(array_agg(pid), '{}') FROM pg_locks WHERE "+ofDatabase, name).Scan(&starting); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the connections that were starting have started", func() bool {
		return none("SELECT count(*) FROM pg_locks WHERE "+ofDatabase+" AND pid = ANY ($2)", name, starting)
	})
	Eventually(t, "the connections have ended", func() bool {
		return none("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", name)
	})
	return func() {
		t.Helper()
		allow("true")
		pool.Reset()
	}
}

// ofDatabase selects the locks on the database $1 itself.
const ofDatabase = "locktype = 'object' AND classid = 'pg_database'::regclass AND objid = (SELECT oid FROM pg_database WHERE datname = $1)"

// FreeAddress returns a loopback address for a server of the test's own. Other tests do not get its port meanwhile, also
// not while the server is down to be started again.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return ports.Address(t)
}
