package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3/lock"

	"examprep.dev/hack/dev/servers"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks/delivery"
)

// bouncerVariable is set by make pgbouncer.
const bouncerVariable = "COMMAND_TEST_PGBOUNCER"

// bouncer is a PgBouncer in front of a new database without tables.
type bouncer struct {
	t *testing.T
	// url is the database's address through PgBouncer.
	url string
}

func parseURL(t *testing.T, address string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(address)
	check.NoError(t, err)
	return parsed
}

// startBouncer starts PgBouncer in a pool mode. The database can have a number of connections of the server.
func startBouncer(t *testing.T, mode string, connections int) *bouncer {
	t.Helper()
	if os.Getenv(bouncerVariable) == "" {
		t.Skip("make pgbouncer runs PgBouncer")
	}
	database := parseURL(t, testkit.EmptyDatabase(t))
	supervised, address := testkit.Supervise(t), testkit.FreeAddress(t)
	check.NoError(t, servers.StartPgBouncer(t.Context(), supervised.Supervisor, servers.PgBouncerConfig{
		Data: filepath.Join(supervised.Dir, "pgbouncer"), Address: address, Server: database.String(), PoolMode: mode, PoolSize: connections,
	}))
	database.Host, database.RawQuery = address, "sslmode=disable"+connectTimeout()
	return &bouncer{t: t, url: database.String()}
}

// connect returns a connection of a client of PgBouncer. It passes notifications to received.
func (b *bouncer) connect(received func(*pgconn.Notification)) *pgx.Conn {
	b.t.Helper()
	cfg, err := pgx.ParseConfig(b.url)
	check.NoError(b.t, err)
	cfg.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { received(n) }
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a prepared statement stays on the connection of the server
	conn, err := pgx.ConnectConfig(b.t.Context(), cfg)
	check.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(b.t.Context())) })
	return conn
}

// another returns a connection of another client, which gets no notification.
func (b *bouncer) another() *pgx.Conn {
	b.t.Helper()
	return b.connect(func(n *pgconn.Notification) { b.t.Errorf("a client gets %v", n) })
}

// console runs a command of PgBouncer's own and returns the rows of its answer by column.
func (b *bouncer) console(command string) (rows []map[string]string, err error) {
	b.t.Helper()
	address := parseURL(b.t, b.url)
	address.Path = servers.PgBouncerConsole
	conn, err := pgconn.Connect(b.t.Context(), address.String())
	check.NoError(b.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(b.t.Context())) }()
	results, err := conn.Exec(b.t.Context(), command).ReadAll()
	for _, result := range results {
		for _, values := range result.Rows {
			row := map[string]string{}
			for i, field := range result.FieldDescriptions {
				row[field.Name] = string(values[i])
			}
			rows = append(rows, row)
		}
	}
	return rows, err
}

// connections returns how many connections of clients and of the server are in use, and how many clients wait for one.
func (b *bouncer) connections() (clients, server, waiting int) {
	b.t.Helper()
	pools, err := b.console("SHOW POOLS")
	check.NoError(b.t, err)
	for _, pool := range pools {
		if "/"+pool["database"] == parseURL(b.t, b.url).Path {
			for column, sum := range map[string]*int{"cl_active": &clients, "sv_active": &server, "cl_waiting": &waiting} {
				n, err := strconv.Atoi(pool[column])
				check.NoError(b.t, err)
				*sum += n
			}
		}
	}
	return clients, server, waiting
}

// TestExamprepWorksBehindPgBouncerInSessionMode migrates a database through PgBouncer, and starts an API and a worker there.
func TestExamprepWorksBehindPgBouncerInSessionMode(t *testing.T) {
	b := startBouncer(t, "session", 100)
	migrate := &testkit.Program{Path: os.Args[0], Env: []string{asCommand + "=1", "DATABASE_URL=" + b.url, "EXAMPREP_ENVIRONMENT=" + string(postgres.Sandbox)}}
	for range 2 {
		migrate.Run(t, "migrate")
	}
	s := newEnvOn(t, b.url, cacheDatabase)
	c := &client{env: s, pool: testkit.Open(t, b.url), address: testkit.FreeAddress(t), statuses: map[int]int{}}
	api, worker := s.start("api", "--listen", c.address), s.start("worker")

	c.key, c.learner = s.newKey(canary), learnerReferences[0]
	s.registerReceiver(c.pool)
	catalogtest.Publish(t, c.pool, catalogtest.Exam(privateExam, "Private exam", "B"))
	for channel, payload := range map[string]string{"examprep_keys": "", "examprep_catalog": privateExam} {
		testkit.Eventually(t, "the API gets a notification of "+channel, func() bool {
			return bytes.Contains(s.Postgres.Traffic().Bytes(), []byte(channel+"\x00"+payload+"\x00"))
		})
	}
	testkit.Eventually(t, "the API has the exam", func() bool {
		status, _ := c.send(http.MethodGet, examPath+"/overview", "", nil)
		return status == http.StatusOK
	})
	attempt := c.open()
	c.must(http.StatusOK, http.MethodPost, examPath+"/mock-exams/submit", c.submission(attempt, "B"))
	testkit.Eventually(t, "both events are delivered", func() bool {
		return count(t, c.pool, "webhook_deliveries WHERE state = 'delivered'") == 2
	})
	check.Contains(t, string(s.deliveries.Bytes()), attempt, "deliveries")

	s.Run(t, "keys", "revoke", c.key[:keys.PrefixLength])
	c.must(http.StatusUnauthorized, http.MethodGet, examPath+"/overview", "")
	testkit.Eventually(t, "each connection of a client has one of the server", func() bool {
		clients, server, waiting := b.connections()
		return clients == server && clients > postgres.DefaultMaxConns && waiting == 0
	})
	api.Stop()
	worker.Stop()
}

// TestPgBouncerSeparatesSessionsOnlyInSessionMode does what docs/sizing.md says that transaction mode breaks, in both modes. In
// transaction mode all clients share one connection of the server.
func TestPgBouncerSeparatesSessionsOnlyInSessionMode(t *testing.T) {
	for mode, connections := range map[string]int{"session": 20, "transaction": 1} {
		for name, try := range map[string]func(t *testing.T, b *bouncer, separate bool){
			"LISTEN":              notificationsReachTheirListener,
			"settings":            settingsStayInTheirSession,
			"prepared statements": statementsStayInTheirSession,
			"advisory lock":       locksEndWithTheirSession,
		} {
			t.Run(mode+" "+name, func(t *testing.T) { try(t, startBouncer(t, mode, connections), mode == "session") })
		}
	}
}

func notificationsReachTheirListener(t *testing.T, b *bouncer, separate bool) {
	t.Helper()
	var heard, strayed []string
	listener := b.connect(func(n *pgconn.Notification) { heard = append(heard, n.Channel) })
	sender := b.connect(func(n *pgconn.Notification) { strayed = append(strayed, n.Channel) })
	testkit.Exec(t, listener, "LISTEN examprep_keys")
	testkit.Exec(t, sender, "NOTIFY examprep_keys")
	testkit.Eventually(t, "a client gets the notification", func() bool {
		check.NoError(t, listener.Ping(t.Context()))
		return len(heard)+len(strayed) > 0
	})
	check.Equal(t, len(heard) == 1 && len(strayed) == 0, separate, "the listener alone gets the notification")
}

// settingsStayInTheirSession sets those of a migration, which has ended, and of a worker, whose connection is open.
func settingsStayInTheirSession(t *testing.T, b *bouncer, separate bool) {
	t.Helper()
	settings := []string{"lock_timeout", "idle_in_transaction_session_timeout", "enable_seqscan"}
	client := b.another()
	read := func() (values []string) {
		for _, name := range settings {
			values = append(values, testkit.Get[string](t, client, "SHOW "+name))
		}
		return values
	}
	before := read()
	check.NoError(t, postgres.Migrate(t.Context(), b.url, postgres.Sandbox))
	pool, err := postgres.Open(t.Context(), b.url, postgres.Options{MaxConns: 1, Session: delivery.SessionSettings()})
	check.NoError(t, err)
	defer pool.Close()
	for i, value := range read() {
		check.Equal(t, value == before[i], separate, "another client's %s stays %s (now %s)", settings[i], before[i], value)
	}
}

// statementsStayInTheirSession connects as each process does at its start. PgBouncer of version 1.21 and newer has the setting.
func statementsStayInTheirSession(t *testing.T, b *bouncer, separate bool) {
	t.Helper()
	open := func() error {
		pool, err := postgres.Open(t.Context(), b.url, postgres.Options{MaxConns: 1})
		if err == nil {
			t.Cleanup(pool.Close)
		}
		return err
	}
	for _, most := range []int{0, 100} {
		_, unknown := b.console(fmt.Sprintf("SET max_prepared_statements = %d", most))
		errs := []error{open(), open()}
		if separate || (most > 0 && unknown == nil) {
			check.NoError(t, errors.Join(errs...))
			continue
		}
		const duplicate = "42P05"
		refused, ok := errors.AsType[*pgconn.PgError](errs[1])
		if !ok || refused.Code != duplicate {
			t.Errorf("max_prepared_statements %d (%v): the second connection's error is %v, want %s", most, unknown, errs[1], duplicate)
		}
	}
}

// locksEndWithTheirSession takes the lock of a migration that breaks off.
func locksEndWithTheirSession(t *testing.T, b *bouncer, separate bool) {
	t.Helper()
	broken, client := b.another(), b.another()
	testkit.Exec(t, broken, fmt.Sprintf("SELECT pg_advisory_lock(%d)", lock.DefaultLockID))
	check.NoError(t, broken.Close(t.Context()))
	testkit.Eventually(t, "PgBouncer knows that the client is gone", func() bool {
		clients, _, _ := b.connections()
		return clients == 1
	})
	const held = `SELECT count(*)::text || ' ' || count(*) FILTER (WHERE pid = pg_backend_pid()) FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	want := "1 1" // held, by the client that did not take it
	if separate {
		want = "0 0"
	}
	testkit.Eventually(t, "locks held, and held by another client: "+want, func() bool { return testkit.Get[string](t, client, held) == want })
}

func TestPgBouncerRefusesTransactionsInStatementMode(t *testing.T) {
	b := startBouncer(t, "statement", 20)
	if err := postgres.Migrate(t.Context(), b.url, postgres.Sandbox); err == nil {
		t.Error("migrate succeeds")
	}
	_, err := b.another().Exec(t.Context(), "BEGIN")
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatalf("a transaction begins: %v", err)
	}
	check.Contains(t, refused.Message, "statement pooling mode", "the error")
}
