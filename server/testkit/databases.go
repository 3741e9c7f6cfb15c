package testkit

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

const (
	// dropTogether is how many databases of ended tests are dropped at once. That takes 24 ms for each, on a busy machine
	// with two cores. A drop at the end of each test takes 87 ms.
	dropTogether = 50
	// templateLock is what processes lock that look for the template or drop old ones.
	templateLock = "examprep test templates"
)

// databases belong to this test process. Their names contain its process id and start. An advisory lock on that part of
// the name tells other processes that this one lives; the databases of one that does not are dropped by the next that
// uses the server.
type databases struct {
	once     sync.Once
	err      error
	process  string // test_PID_START
	template string
	life     *pgx.Conn // holds the lock, until the process ends

	mu    sync.Mutex
	made  int
	ended []string // names of databases whose tests have ended
}

var own databases //nolint:gochecknoglobals // the server knows each test process by one connection

func (d *databases) create(t testing.TB, server string, migrated bool) string {
	t.Helper()
	if d.once.Do(func() { d.err = d.join(server) }); d.err != nil {
		t.Fatalf("prepare the test database server: %v", d.err)
	}
	d.mu.Lock()
	d.made++
	name := d.process + "_" + strconv.Itoa(d.made)
	d.mu.Unlock()
	statement := "CREATE DATABASE " + name
	if migrated {
		statement += " TEMPLATE " + d.template + " STRATEGY file_copy" // 96 ms instead of 135 by WAL
	}
	execute(t, server, statement)
	t.Cleanup(func() { d.end(t, server, name) })
	address, err := withDatabase(server, name)
	check.NoError(t, err)
	return address
}

// end drops the database with others, as soon as enough have ended.
func (d *databases) end(t testing.TB, server, name string) {
	t.Helper()
	d.mu.Lock()
	d.ended = append(d.ended, name)
	var drop []string
	if len(d.ended) >= dropTogether {
		drop, d.ended = d.ended, nil
	}
	d.mu.Unlock()
	if drop == nil {
		return
	}
	ctx := context.Background()
	conn, err := connectToServer(ctx, server)
	check.NoErrorf(t, err, "reach test database server")
	defer func() { _ = conn.Close(ctx) }()
	check.NoError(t, dropAll(ctx, conn, drop))
}

// join makes this process known to the server, drops the databases of processes that have ended, and finds the template.
func (d *databases) join(server string) (err error) {
	ctx := context.Background()
	if d.life, err = connectToServer(ctx, server); err != nil {
		return err
	}
	d.process = fmt.Sprintf("test_%d_%x", os.Getpid(), time.Now().UnixMicro())
	if _, err := d.life.Exec(ctx, "SELECT pg_advisory_lock($1)", lockOf(d.process)); err != nil {
		return err
	}
	if err := dropDead(ctx, d.life); err != nil {
		return err
	}
	if _, err := d.life.Exec(ctx, "SELECT pg_advisory_lock($1)", lockOf(templateLock)); err != nil {
		return err
	}
	err = d.ensureTemplate(ctx, server)
	_, unlockErr := d.life.Exec(ctx, "SELECT pg_advisory_unlock($1)", lockOf(templateLock))
	return errors.Join(err, unlockErr)
}

// connectToServer connects to the server itself. Each statement has [Patience]: a busy machine drops many databases one by one.
func connectToServer(ctx context.Context, server string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(server)
	if err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = Patience
	cfg.RuntimeParams["statement_timeout"] = strconv.FormatInt(Patience.Milliseconds(), 10)
	return pgx.ConnectConfig(ctx, cfg)
}

// dropDead drops the databases of processes whose lock is free.
func dropDead(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, `SELECT datname FROM pg_database WHERE datname ~ '^test_[0-9]+_[0-9a-f]+_[0-9]+$' ORDER BY datname`)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string]) // reports the query's error as well
	if err != nil {
		return err
	}
	databasesOf := map[string][]string{}
	for _, name := range names {
		process := name[:strings.LastIndexByte(name, '_')]
		databasesOf[process] = append(databasesOf[process], name)
	}
	for process, names := range databasesOf {
		var dead bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockOf(process)).Scan(&dead); err != nil {
			return err
		}
		if !dead {
			continue
		}
		err := dropAll(ctx, conn, names)
		_, unlockErr := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", lockOf(process))
		if err := errors.Join(err, unlockErr); err != nil {
			return err
		}
	}
	return nil
}

func dropAll(ctx context.Context, conn *pgx.Conn, names []string) error {
	for _, name := range names {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
	}
	return nil
}

// ensureTemplate finds or makes the database that others are copies of: a copy costs a tenth of the migrations. Its name has
// the migrations' digest and the first day of the week, because partitions begin in the current week, counted from the epoch.
// Templates of earlier weeks are dropped.
func (d *databases) ensureTemplate(ctx context.Context, server string) error {
	const seconds = 7 * 24 * 60 * 60
	week := time.Unix(time.Now().Unix()/seconds*seconds, 0).UTC().Format("20060102")
	d.template = "template_" + postgres.MigrationsDigest() + "_" + week
	rows, _ := d.life.Query(ctx, "SELECT datname FROM pg_database WHERE datistemplate")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string]) // reports the query's error as well
	if err != nil {
		return err
	}
	exists := false
	for _, name := range names {
		exists = exists || name == d.template
		if !isOldTemplate(name, week) {
			continue
		}
		if _, err := d.life.Exec(ctx, "ALTER DATABASE "+name+" IS_TEMPLATE false"); err != nil {
			return err
		}
		if err := dropAll(ctx, d.life, []string{name}); err != nil {
			return err
		}
	}
	if exists {
		return nil
	}
	if err := dropAll(ctx, d.life, []string{d.template}); err != nil { // one that was not finished
		return err
	}
	if _, err := d.life.Exec(ctx, "CREATE DATABASE "+d.template); err != nil {
		return err
	}
	address, err := withDatabase(server, d.template)
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, address, postgres.Sandbox); err != nil {
		return err
	}
	_, err = d.life.Exec(ctx, "ALTER DATABASE "+d.template+" IS_TEMPLATE true")
	return err
}

func isOldTemplate(name, week string) bool {
	match := regexp.MustCompile(`^template_[0-9a-f]+_([0-9]{8})$`).FindStringSubmatch(name)
	return len(match) == 2 && match[1] < week
}

func lockOf(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64())
}

func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", DatabaseVariable, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}
