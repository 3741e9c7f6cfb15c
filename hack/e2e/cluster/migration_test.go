//go:build e2e

package cluster

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// failedMigrationChangesNothing upgrades, under load, to a configuration whose database is not there: what runs goes on,
// the alert fires of the Job that failed, and the next upgrade works.
func failedMigrationChangesNothing(t *testing.T, r *release, papers []*crowdtest.Paper) {
	before := r.running(t)
	r.losesNothing(t, papers, func(t *testing.T) {
		out, err := r.tryUpgrade(t, r.images.next, "database.key=misspelt-database-url", "migrate.backoffLimit=0", "migrate.activeDeadlineSeconds=30")
		if err == nil {
			t.Errorf("the upgrade worked:\n%s", out)
		}
	})
	check.Slices(t, r.running(t), before, "the images that pods run after the failed upgrade")
	r.alertFires(t)
	r.upgrade(t, r.images.product)
}

// alertFires gives the Job of the migration, as it failed, to the test of its alert.
func (r *release) alertFires(t *testing.T) {
	t.Helper()
	jobs := r.kubectl(t, "", "get", "jobs", "-n", r.namespace, "-l", r.selector("migrate"), "-o", "json")
	file := filepath.Join(t.TempDir(), "jobs.json")
	testkit.WriteFile(t, file, []byte(jobs))
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "hack", "alerts"), "test", "-count", "1",
		"-run", "^TestAlertsOfAMigrationThatFailed$", "-v", "./firing")
	cmd.Env = append(os.Environ(), "EXAMPREP_FAILED_JOBS="+file, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -trimpath")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestAlertsOfAMigrationThatFailed")) {
		t.Errorf("the alert: %v", err)
	}
	t.Logf("%s", out)
}
