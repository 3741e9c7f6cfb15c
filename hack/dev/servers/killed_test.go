package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/hack/dev/devtest"
	"examprep.dev/hack/dev/process"
	"examprep.dev/server/testkit/check"
)

// TestKilledPostgresRestartsOnceItsBackendsAreGone stops a backend, kills the server, and lets the backend go on after
// more failed starts than a broken store gets.
func TestKilledPostgresRestartsOnceItsBackendsAreGone(t *testing.T) {
	if !Postgres().present() {
		t.Skip("PostgreSQL is not installed")
	}
	const attempts = 6 // the pauses before them add up to three seconds
	dir := scratch(t)
	reports := make(chan string, 100)
	s, err := process.New(filepath.Join(dir, "log"), filepath.Join(dir, "pids"), func(format string, args ...any) {
		reports <- fmt.Sprintf(format, args...)
	})
	check.NoError(t, err)
	t.Cleanup(s.Stop)
	cfg := PostgresConfig{Data: filepath.Join(dir, "data"), Address: devtest.FreeAddress(t), Password: "secret", Database: "examprep"}
	url, err := StartPostgres(t.Context(), s, cfg)
	check.NoError(t, err)
	execute(t, url, "CREATE TABLE kept (x int)")
	client, err := pgx.Connect(t.Context(), url)
	check.NoError(t, err)
	defer client.Close(context.Background())
	backend := int(client.PgConn().PID())
	signal(t, backend, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(backend, syscall.SIGCONT) })
	text, err := os.ReadFile(filepath.Join(dir, "pids", "postgres.pid"))
	check.NoError(t, err)
	server, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check.NoError(t, err)
	signal(t, server, syscall.SIGKILL)
	for refused := 0; refused < attempts; {
		select {
		case report := <-reports:
			if strings.Contains(report, "still run") {
				refused++
			}
		case err := <-s.Failed():
			t.Fatalf("the supervisor gave up after %d attempts: %v", refused, err)
		}
	}
	signal(t, backend, syscall.SIGCONT)
	eventually(t, s, func() bool { return ask(t.Context(), url, "INSERT INTO kept VALUES (1)") == nil })
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	check.NoError(t, syscall.Kill(pid, s))
}

// eventually waits until condition holds, unless the supervisor fails first.
func eventually(t *testing.T, s *process.Supervisor, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case err := <-s.Failed():
			t.Fatal(err)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-ticker.C:
		}
	}
}
