package servers_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"examprep.dev/hack/dev/devtest"
	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestKilledPostgresRestartsOnceItsBackendsAreGone stops a backend, kills the server, and lets the backend go on after
// more failed starts than a broken store gets.
func TestKilledPostgresRestartsOnceItsBackendsAreGone(t *testing.T) {
	if servers.Require(servers.Postgres()) != nil {
		t.Skip("PostgreSQL is not installed")
	}
	const attempts = 6 // the pauses before them add up to three seconds
	dir := servers.Scratch(t)
	reports := make(chan string, 100)
	s, err := process.New(filepath.Join(dir, "log"), filepath.Join(dir, "pids"), func(format string, args ...any) {
		reports <- fmt.Sprintf(format, args...)
	})
	check.NoError(t, err)
	t.Cleanup(s.Stop)
	ctx := t.Context()
	go func() {
		select {
		case err := <-s.Failed():
			reports <- gaveUp + err.Error()
		case <-ctx.Done():
		}
	}()
	cfg := servers.PostgresConfig{Data: filepath.Join(dir, "data"), Address: devtest.FreeAddress(t), Password: "secret", Database: "examprep"}
	url, err := servers.StartPostgres(t.Context(), s, cfg)
	check.NoError(t, err)
	client, err := pgx.Connect(t.Context(), url)
	check.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	_, err = client.Exec(t.Context(), "CREATE TABLE kept (x int)")
	check.NoError(t, err)
	backend := int(client.PgConn().PID())
	signal(t, backend, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(backend, syscall.SIGCONT) })
	text, err := os.ReadFile(filepath.Join(dir, "pids", "postgres.pid"))
	check.NoError(t, err)
	server, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check.NoError(t, err)
	signal(t, server, syscall.SIGKILL)
	for refused := 0; refused < attempts; {
		report := testkit.Receive(t, reports, "the supervisor reports starts, or its end")
		if strings.HasPrefix(report, gaveUp) {
			t.Fatalf("after %d attempts: %s", refused, report)
		}
		if strings.Contains(report, "still run") {
			refused++
		}
	}
	signal(t, backend, syscall.SIGCONT)
	testkit.Eventually(t, "PostgreSQL has its data", func() bool {
		return insert(t.Context(), url) == nil
	})
}

// gaveUp is the beginning of a report of the supervisor's failure.
const gaveUp = "the supervisor gave up: "

// insert adds a row on a connection of its own.
func insert(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "INSERT INTO kept VALUES (1)")
	return err
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	check.NoError(t, syscall.Kill(pid, s))
}
