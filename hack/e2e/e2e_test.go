//go:build e2e

package e2e

import (
	"flag"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
)

var (
	dataDir  = flag.String("data", "../../../shared/data", "folder of the data sets, each with exams.json, papers.jsonl, questions.jsonl")
	duration = flag.Duration("duration", time.Minute, "how long each run under load takes")
	clients  = flag.Int("clients", 50, "how many clients there are at once under load")
	seed     = flag.Int64("seed", 1, "where the random choices begin")
)

// dataSets are the sets whose papers are proven.
var dataSets = []string{"head-qa-es", "oab-exams", "jeebench"}

// TestEndToEnd is the table of contents. The proofs build on one another: what cannot be applied cannot be served.
func TestEndToEnd(t *testing.T) {
	s := connect(t)
	papers := crowdtest.ReadPapers(t, *dataDir, dataSets)
	// No commas in names: they become folders, and kubectl takes a comma for the end of one.
	step := func(name string, proof func(*testing.T)) {
		if !t.Run(name, proof) {
			t.FailNow()
		}
	}
	step("what the README says to type answers", func(t *testing.T) { readmeAnswers(t, s) })
	step("every imported exam becomes Ready", func(t *testing.T) { contentBecomesReady(t, s, papers) })
	step("every paper pages as its input reads", func(t *testing.T) { pagesEqualInput(t, s, papers) })
	step("scores are those that the input implies", func(t *testing.T) { scoresFollowFromInput(t, s, papers) })
	step("under load every submission is kept and told of", func(t *testing.T) { loadLosesNothing(t, s, papers) })
	step("killed processes lose nothing", func(t *testing.T) { killsLoseNothing(t, s, papers) })
	step("a wrong resource changes nothing and is named to the field", func(t *testing.T) { wrongResourcesChangeNothing(t, s) })
	step("a change is served within two seconds", func(t *testing.T) { changeIsServedSoon(t, s, papers) })
}
