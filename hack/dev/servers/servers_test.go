package servers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"examprep.dev/hack/dev/devtest"
	"examprep.dev/server/testkit/check"
)

func TestPostgresStartsServesKeepsItsDataAndStops(t *testing.T) {
	if !Postgres().present() {
		t.Skip("PostgreSQL is not installed")
	}
	dir := scratch(t)
	cfg := PostgresConfig{Data: filepath.Join(dir, "data"), Address: devtest.FreeAddress(t), Password: "it's a p@ss/word", Database: "examprep"}

	s := devtest.Supervisor(t, dir)
	url, err := StartPostgres(t.Context(), s, cfg)
	check.NoError(t, err)
	execute(t, url, "CREATE TABLE kept (x int)")
	s.Stop()
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Fatal("PostgreSQL still answers after Stop")
	}

	s = devtest.Supervisor(t, dir)
	if url, err = StartPostgres(t.Context(), s, cfg); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "INSERT INTO kept VALUES (1)")
	if _, err := pgx.Connect(t.Context(), strings.Replace(url, "p%40ss", "wrong", 1)); err == nil {
		t.Error("any password opens it")
	}
	s.Stop()

	s = devtest.Supervisor(t, dir)
	cfg.Database, cfg.Replaces = "examprep_2", "^examprep"
	next, err := StartPostgres(t.Context(), s, cfg)
	check.NoError(t, err)
	execute(t, next, "CREATE TABLE fresh (x int)")
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("the database that another replaces is still there")
	}
}

func TestRedisStartsServesKeepsItsDataAndStops(t *testing.T) {
	if !Redis().present() {
		t.Skip("Redis is not installed")
	}
	dir := scratch(t)
	cfg := RedisConfig{Data: filepath.Join(dir, "data"), Address: devtest.FreeAddress(t), Password: "secret"}
	s := devtest.Supervisor(t, dir)
	url, err := StartRedis(t.Context(), s, cfg)
	check.NoError(t, err)
	check.Equal(t, url, "redis://:secret@"+cfg.Address+"/0", "URL")
	if err := ping(t.Context(), RedisConfig{Address: cfg.Address, Password: "wrong"}); err == nil {
		t.Error("any password opens it")
	}
	s.Stop()
	if err := ping(t.Context(), cfg); err == nil {
		t.Error("Redis still answers after Stop")
	}
	if _, err := StartRedis(t.Context(), devtest.Supervisor(t, dir), cfg); err != nil {
		t.Errorf("second start: %v", err)
	}
}

func TestDataMovesWhereItsOwnerCanReachIt(t *testing.T) {
	closed := filepath.Join(scratch(t), "closed")
	check.NoError(t, os.Mkdir(closed, 0o700))
	if passable(filepath.Join(closed, "not", "there", "yet")) {
		t.Error("a closed directory counts as passable")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another")
	}
	owner, err := unprivileged()
	if err != nil {
		t.Skip(err)
	}
	dir, err := prepareData(filepath.Join(closed, "data"), owner)
	check.NoError(t, err)
	t.Cleanup(func() { _ = RemovePostgres(filepath.Join(closed, "data")) })
	if !strings.HasPrefix(dir, "/var/tmp/examprep-") || !passable(filepath.Dir(dir)) {
		t.Errorf("moved to %s", dir)
	}
	testMovedDataGoWithTheirState(t, filepath.Join(closed, "data"), dir, owner)
	check.NoError(t, os.Chown(dir, 0, 0))
	if _, err := prepareData(filepath.Join(closed, "data"), owner); err == nil {
		t.Error("took a directory that somebody else owns")
	}
}

// testMovedDataGoWithTheirState checks that data outlive a restart, but neither make clean nor a deleted state directory.
func testMovedDataGoWithTheirState(t *testing.T, wanted, moved string, owner *syscall.Credential) {
	t.Helper()
	kept := filepath.Join(moved, "PG_VERSION")
	for _, step := range []struct {
		name  string
		after func() error
		kept  bool
	}{
		{"a restart", func() error { return nil }, true},
		{"a deleted state directory", func() error { return os.Remove(noteOf(wanted)) }, false},
		{"make clean", func() error { return RemovePostgres(wanted) }, false},
	} {
		check.NoError(t, os.WriteFile(kept, []byte("15\n"), 0o600))
		check.NoError(t, step.after())
		_, err := prepareData(wanted, owner)
		check.NoError(t, err)
		if _, err := os.Stat(kept); (err == nil) != step.kept {
			t.Errorf("after %s: %v, want kept: %t", step.name, err, step.kept)
		}
	}
}

// scratch is a temporary directory that other users may pass through, as .dev is.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "servers-test-") //nolint:usetesting // t.TempDir is closed to other users
	check.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), statement)
	check.NoError(t, err)
}
