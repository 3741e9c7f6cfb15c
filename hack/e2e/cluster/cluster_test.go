//go:build e2e

package cluster

import (
	"flag"
	"os"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
)

var (
	dataDir  = flag.String("data", "../../../../shared/data", "folder of the data sets, each with exams.json, papers.jsonl, questions.jsonl; the fixture alone without them")
	duration = flag.Duration("duration", 10*time.Second, "how long clients work before and after what happens to the service")
	chaos    = flag.Duration("chaos", 30*time.Second, "how long pods are deleted at random, gracefully and then by force")
	clients  = flag.Int("clients", 50, "how many clients there are at once")
	rate     = flag.Float64("rate", 200, "how many requests all clients together send a second")
	seed     = flag.Int64("seed", 1, "where the random choices begin")
	keep     = flag.Bool("keep", false, "leave everything in the cluster when a proof failed")
	figures  = flag.Int("figures", 0, "how many attempts to measure the figures of the chart's page with; 0: none are measured")
)

// dataSets are the sets whose papers are served.
var dataSets = []string{"head-qa-es", "oab-exams", "jeebench"}

// TestCluster is the table of contents. The proofs build on one another: what is not installed cannot be upgraded.
func TestCluster(t *testing.T) {
	if os.Getenv("E2E_CLUSTER") == "" {
		t.Skip("E2E_CLUSTER is not set")
	}
	c := connect(t)
	c.bringUpStores(t)
	production := c.release("examprep", namespace, "production", c.helm)
	papers := readPapers(t)
	step := func(name string, proof func(*testing.T)) {
		if !t.Run(name, proof) && t.Failed() && !t.Run("the rest can go on", production.recovers) {
			t.FailNow()
		}
	}
	step("an install answers within minutes", func(t *testing.T) { installAnswers(t, production) })
	step("helm test opens and submits a paper", func(t *testing.T) { helmTestPasses(t, production) })
	step("applied content is served scored and told of", func(t *testing.T) { contentIsServed(t, production, papers) })
	step("an upgrade loses nothing", func(t *testing.T) { upgradeLosesNothing(t, production, papers) })
	step("a rollback loses nothing", func(t *testing.T) { rollbackLosesNothing(t, production, papers) })
	step("a failed migration changes nothing and is told of", func(t *testing.T) { failedMigrationChangesNothing(t, production, papers) })
	step("restarts lose nothing", func(t *testing.T) { restartsLoseNothing(t, production, papers) })
	step("draining the API pods one by one loses nothing", func(t *testing.T) { drainLosesNothing(t, production, papers) })
	step("another operator takes over", func(t *testing.T) { operatorIsReplaced(t, production, papers) })
	step("pods deleted at random lose nothing", func(t *testing.T) { deletedPodsLoseNothing(t, production, papers) })
	step("killed pods lose nothing that was answered", func(t *testing.T) { killedPodsLoseNothing(t, production, papers) })
	step("the API scales with its load", func(t *testing.T) { apiScales(t, production, papers) })
	step("two releases stand side by side", func(t *testing.T) { releasesAreApart(t, c, production) })
	step("an uninstall leaves resources and data", func(t *testing.T) { uninstallLeavesData(t, production, papers) })
	step("a back-up can be restored and run on", func(t *testing.T) { backupCanBeRestored(t, production, papers) })
	if *figures > 0 {
		step("figures", func(t *testing.T) { measureFigures(t, production, papers) })
	}
}

// readPapers reads the data sets; the fixture stands in for those that are not here.
func readPapers(t *testing.T) []*crowdtest.Paper {
	t.Helper()
	if _, err := os.Stat(*dataDir); err != nil {
		t.Logf("the data sets are not here (%v): the fixture alone is served", err)
		return crowdtest.ReadPapers(t, "testdata", []string{"fixture"})
	}
	return crowdtest.ReadPapers(t, *dataDir, dataSets)
}
