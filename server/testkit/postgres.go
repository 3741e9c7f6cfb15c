package testkit

import (
	"context"
	"maps"
	"net/url"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

// Database returns a pool of connections to a new, migrated sandbox database, with the run-time parameters of session.
func Database(t testing.TB, session ...map[string]string) *pgxpool.Pool {
	t.Helper()
	return Open(t, DatabaseURL(t), session...)
}

// Open returns a pool of connections to a database, with the run-time parameters of session. Neither connecting nor an idle
// transaction times out on a busy machine.
func Open(t testing.TB, address string, session ...map[string]string) *pgxpool.Pool {
	t.Helper()
	options := postgres.Options{Session: map[string]string{"idle_in_transaction_session_timeout": "0"}}
	for _, parameters := range session {
		maps.Copy(options.Session, parameters)
	}
	pool, err := postgres.Open(t.Context(), patientURL(t, address), options)
	check.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// patientURL sets the time-out of connecting to Patience, unless the address has one.
func patientURL(t testing.TB, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	check.NoError(t, err)
	query := parsed.Query()
	if !query.Has("connect_timeout") {
		query.Set("connect_timeout", strconv.Itoa(int(Patience.Seconds())))
	}
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// DatabaseURL returns the URL of a new, migrated sandbox database with an installation ID of its own.
func DatabaseURL(t testing.TB) string {
	t.Helper()
	address := own.create(t, serverURL(t, DatabaseVariable), true)
	execute(t, address, "UPDATE installation SET id = gen_random_uuid()") // the copy has the template's ID
	return address
}

// EmptyDatabase returns the URL of a new database without tables.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	return own.create(t, serverURL(t, DatabaseVariable), false)
}

// T is the part of testing.TB that rapid's T has as well.
type T interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// A Session runs statements: a pool, a connection or a transaction.
type Session interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
}

// Exec runs a statement.
func Exec(t T, db Session, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Get returns the only column of the first row of a query.
func Get[V any](t T, db Session, query string, args ...any) V {
	t.Helper()
	rows, _ := db.Query(t.Context(), query, args...) // CollectOneRow returns the query's error
	value, err := pgx.CollectOneRow(rows, pgx.RowTo[V])
	check.NoErrorf(t, err, "%s", query)
	return value
}

// List returns the only column of all rows of a query.
func List[V any](t T, db Session, query string, args ...any) []V {
	t.Helper()
	rows, _ := db.Query(t.Context(), query, args...) // CollectRows returns the query's error
	values, err := pgx.CollectRows(rows, pgx.RowTo[V])
	check.NoErrorf(t, err, "%s", query)
	return values
}

func execute(t testing.TB, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	check.NoErrorf(t, err, "reach test database server")
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// RowsRead returns how many rows of a table and its partitions a session has read and not yet reported to the server's
// statistics. The difference of two calls is what the statements between them read.
func RowsRead(t testing.TB, tx pgx.Tx, table string) (n int) {
	t.Helper()
	check.NoError(t, tx.QueryRow(t.Context(), `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int
		FROM pg_stat_xact_user_tables WHERE relid IN (SELECT $1::regclass UNION ALL SELECT relid FROM pg_partition_tree($1::regclass))`,
		table).Scan(&n))
	return n
}

// CutOff makes the test's database unavailable, as a failover does. When it returns, all connections are closed and new
// ones are refused. restore admits connections again and removes closed ones from pool. Calling it is optional.
func CutOff(t testing.TB, pool *pgxpool.Pool) (restore func()) {
	t.Helper()
	ctx := t.Context()
	admin, err := pgx.Connect(ctx, serverURL(t, DatabaseVariable))
	check.NoErrorf(t, err, "reach test database server")
	t.Cleanup(func() { _ = admin.Close(context.WithoutCancel(ctx)) })
	name := pool.Config().ConnConfig.Database
	allow := func(yes string) {
		t.Helper()
		_, err := admin.Exec(ctx, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" ALLOW_CONNECTIONS "+yes)
		check.NoError(t, err)
	}
	none := func(query string, args ...any) bool {
		t.Helper()
		var count int
		check.NoError(t, admin.QueryRow(ctx, query, args...).Scan(&count))
		return count == 0
	}
	allow("false")
	// A starting backend may have been admitted already. It is not in pg_stat_activity yet, but holds a lock on its
	// database.
	var starting []int32
	check.NoError(t, admin.QueryRow(ctx, "SELECT coalesce(array_agg(pid), '{}') FROM pg_locks WHERE "+ofDatabase, name).Scan(&starting))
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

// ofDatabase selects the locks on database $1 itself.
const ofDatabase = "locktype = 'object' AND classid = 'pg_database'::regclass AND objid = (SELECT oid FROM pg_database WHERE datname = $1)"

// Begin begins a transaction and runs statements in it, for example to hold locks. The transaction is rolled back at the
// end of the test if it is still open.
func Begin(t testing.TB, pool *pgxpool.Pool, statements ...string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	check.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	for _, statement := range statements {
		Exec(t, tx, statement)
	}
	return tx
}

// UnderEachPlan runs try with plans for the values of a statement and with plans for any values. If tables are given, it does so without
// statistics, and again after it has analyzed them. Each run has a transaction of its own.
func UnderEachPlan(t testing.TB, pool *pgxpool.Pool, tables string, try func(tx pgx.Tx, how string)) {
	t.Helper()
	run := func(statistics string) {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			tx := Begin(t, pool, "SET LOCAL plan_cache_mode = "+mode)
			try(tx, statistics+mode)
			Release(t, tx)
		}
	}
	if tables == "" {
		run("")
		return
	}
	run("without statistics, ")
	Exec(t, pool, "ANALYZE "+tables)
	run("with statistics, ")
}

// ForEach runs a query, scans each row into the pointers of into, and calls visit.
func ForEach(t T, db Session, into []any, visit func(), query string, args ...any) {
	t.Helper()
	rows, _ := db.Query(t.Context(), query, args...) // ForEachRow returns the query's error
	if _, err := pgx.ForEachRow(rows, into, func() error { visit(); return nil }); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// Release rolls a transaction of Begin back.
func Release(t testing.TB, tx pgx.Tx) {
	t.Helper()
	check.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))
}
