// Package postgrestest gives each test a migrated PostgreSQL database of its own, on the real server that
// EXAMPREP_TEST_DATABASE_URL names (`make test` sets it). It fails the test, never skips it, when there is none.
package postgrestest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
)

// ServerVariable names the variable that holds the test server's URL, with the right to create databases.
const ServerVariable = "EXAMPREP_TEST_DATABASE_URL"

// New returns a pool on a fresh, migrated sandbox database, dropped when the test ends.
func New(t testing.TB, session ...postgres.Setting) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), URL(t), session...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URL returns the address of a fresh, migrated sandbox database, dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	server := serverURL(t)
	url := create(t, server, " TEMPLATE "+ensureTemplate(t, server))
	exec(t, url, "UPDATE installation SET id = gen_random_uuid()") // the template's is not its own
	return url
}

// Empty returns the address of a fresh database that nobody has migrated, dropped when the test ends.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, serverURL(t), "")
}

func serverURL(t testing.TB) string {
	t.Helper()
	server := os.Getenv(ServerVariable)
	if server == "" {
		t.Fatalf("%s is not set: run the tests by `make test` (PKG=./server/... for a part of them)", ServerVariable)
	}
	return server
}

// create makes a database, with more of the statement, and returns its address.
func create(t testing.TB, server, more string) string {
	t.Helper()
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	exec(t, server, "CREATE DATABASE "+name+more)
	t.Cleanup(func() { exec(t, server, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)) })
	return withDatabase(t, server, name)
}

// ensureTemplate migrates one database per set of migrations; copies of it cost a tenth of migrating anew. The lock is
// held over check and creation, so that parallel test processes do not race.
func ensureTemplate(t testing.TB, server string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A new week needs other partitions.
	name := fmt.Sprintf("template_%s_%d", postgres.MigrationsDigest(), time.Now().Unix()/(7*24*3600))
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("reach test database server: %v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(h.Sum64())); err != nil {
		t.Fatal(err)
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", name).Scan(&exists); err != nil {
		t.Fatal(err)
	}
	if exists {
		return name
	}
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := postgres.Migrate(ctx, withDatabase(t, server, name), postgres.Sandbox); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" IS_TEMPLATE true"); err != nil {
		t.Fatal(err)
	}
	return name
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

func withDatabase(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
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

// Ports below the range that systems give away by themselves, to outgoing connections and to listeners on port 0; those
// of hack/dev begin where these end.
const lowestPort, highestPort = 10000, 20000

// FreeAddress returns a loopback address for a server of the test's own. Other tests do not get its port meanwhile, also
// not while the server is down to be started again.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var address string
	Eventually(t, "a port is free", func() bool {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort)))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err == nil && listener.Close() == nil
	})
	return address
}
