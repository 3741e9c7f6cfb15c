//go:build e2e

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// backupCanBeRestored runs the lines of docs/backup.md for a back-up, while clients work, and for a restore. Then Redis is empty,
// and the database is another one. The history has every attempt from before the back-up, keys work, and new attempts are stored
// and reach the receiver.
func backupCanBeRestored(t *testing.T, r *release, papers []*crowdtest.Paper) {
	dir := t.TempDir()
	crowd := r.losesNothing(t, papers, func(*testing.T) {})
	r.losesNothing(t, papers, func(t *testing.T) {
		began := time.Now()
		r.follow(t, dir, "back-up")
		info, err := os.Stat(filepath.Join(dir, "examprep.dump"))
		check.NoError(t, err)
		t.Logf("back-up of %s MiB with %s attempts: %d KiB after %s", r.psql(t, "examprep", "SELECT pg_database_size(current_database()) / 1048576"),
			r.psql(t, "examprep", "SELECT count(*) FROM attempts"), info.Size()>>10, seconds(time.Since(began)))
	})
	r.redisCLI(t, "set", "e2e-left-over", "1")
	began := time.Now()
	r.follow(t, dir, "restore")
	check.Equal(t, r.redisCLI(t, "exists", "e2e-left-over"), "0", "left-over keys in Redis")
	for _, component := range components {
		r.awaitWhole(t, component)
	}
	check.NoError(t, r.list(t, r.api))
	t.Logf("restore: the first 200 after %s", seconds(time.Since(began)))
	check.Equal(t, r.psql(t, "examprep_restored", "SELECT count(*) FROM pg_stat_activity WHERE datname = 'examprep'"), "0", "connections to the old database")
	crowd.CheckHistory(t, r.api)
	r.losesNothing(t, papers, func(*testing.T) {})
}

// follow runs a procedure of docs/backup.md: the block after the comment with its name. The programs of
// PostgreSQL and Redis run in their pods.
func (r *release) follow(t *testing.T, dir, procedure string) {
	t.Helper()
	page := testkit.ReadFile(t, filepath.Join(root, "docs", "backup.md"))
	block := regexp.MustCompile("(?s)<!-- e2e: " + procedure + " -->\n+```(?:sh|bash)\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("docs/backup.md has no procedure %q", procedure)
	}
	const inPods = `
in_postgres() { kubectl exec -i -n "$STORES" deployment/postgres -- "$@"; }
pg_dump() { in_postgres pg_dump "$@"; }
pg_restore() { in_postgres pg_restore "$@"; }
psql() { in_postgres psql "$@"; }
redis-cli() { kubectl exec -i -n "$STORES" deployment/redis -- redis-cli "$@"; }
`
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", inPods+string(block[1]))
	shell.Dir = dir
	shell.Env = append(os.Environ(),
		"PATH="+filepath.Dir(r.kubectlPath)+":"+os.Getenv("PATH"), "STORES="+storesNamespace,
		"NAMESPACE="+r.namespace, "RELEASE="+r.name, "REDIS_URL="+r.stores.redisURL(0),
		"ADMIN_URL="+r.stores.databaseURL("examprep"), // its role is a superuser
		"DATABASE_URL="+r.stores.databaseURL("examprep"), "RESTORED_URL="+r.stores.databaseURL("examprep_restored"),
		"SECRET=settings", "KEY=database-url")
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", procedure, err, out, r.state(t))
	}
	t.Logf("%s\n%s", strings.TrimSpace(string(block[1])), strings.TrimSpace(string(out)))
}
