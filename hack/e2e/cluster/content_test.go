//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const fixture = "e2e-fixture"

// contentIsServed applies a tier, the receiver and the real papers by kubectl, finds every question served as the input
// has it, every sheet scored as the input implies, and the events at the receiver, signed.
func contentIsServed(t *testing.T, r *release, papers []*crowdtest.Paper) {
	r.apply(t, "resources.yaml", map[string]string{"NAMESPACE": r.namespace, "RECEIVER": receiverHost})
	r.kubectl(t, "", "wait", "--for=condition=Ready", "-n", r.namespace, "ratetier/e2e", "webhookendpoint/receiver", "--timeout=60s")
	r.reach(t, r.createKey(t, testAccount, "e2e"))
	r.applyDataSets(t, papers)

	var readers errgroup.Group
	readers.SetLimit(8)
	for i, p := range papers {
		readers.Go(func() error {
			return checkPaper(t.Context(), r.api, p, rand.New(rand.NewPCG(uint64(*seed), uint64(i))))
		})
	}
	check.NoError(t, readers.Wait())
	t.Logf("%d papers are served as their input reads, and scored as it implies", len(papers))
	r.losesNothing(t, papers, func(*testing.T) {})
}

// checkPaper reads a paper whole and hands in three sheets: all right, nothing, and at random.
func checkPaper(ctx context.Context, api *crowdtest.API, p *crowdtest.Paper, chance *rand.Rand) error {
	if err := api.CheckPages(ctx, p); err != nil {
		return err
	}
	for _, how := range []crowdtest.Answering{crowdtest.Rightly, crowdtest.Not, crowdtest.Anyhow} {
		if err := api.CheckScore(ctx, p, crowdtest.Fill(p, how, chance)); err != nil {
			return fmt.Errorf("%s: %w", p.ID, err)
		}
	}
	return nil
}

// applyDataSets imports, seals and applies the sets that the papers are of, and waits until each exam is served and told
// of.
func (r *release) applyDataSets(t *testing.T, papers []*crowdtest.Paper) {
	t.Helper()
	out := t.TempDir()
	sets := map[string]bool{}
	for _, p := range papers {
		if p.Exam != fixture && !sets[p.Set] {
			sets[p.Set] = true
			command(t, filepath.Join(root, "bin", "examprep"), "content", "import", "--format", "jsonl",
				"--from", filepath.Join(*dataDir, p.Set), "--out", filepath.Join(out, p.Set), "--seal", "--namespace", r.namespace)
		}
	}
	if len(sets) == 0 {
		return // the fixture is there
	}
	began := time.Now()
	r.kubectl(t, "", "apply", "--server-side", "--force-conflicts", "--recursive", "-f", out)
	r.kubectl(t, "", "wait", "--for=condition=Ready", "examcontents", "--all", "-n", r.namespace, "--timeout=180s")
	t.Logf("%d papers applied and Ready after %s", len(papers), seconds(time.Since(began)))
	for _, p := range papers {
		eventually(t, 30*time.Second, p.ID+" to be served", func() bool { return strings.Contains(r.served(t, p.Exam, "/mock-exams"), `"`+p.ID+`"`) })
	}
	for _, exam := range exams(papers) {
		r.awaitUpdate(t, exam)
	}
}

// applyFixture publishes the fixture under a name.
func (r *release) applyFixture(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fixture.yaml")
	text := filled(t, "fixture.yaml", map[string]string{"NAMESPACE": r.namespace, "FIXTURE_NAME": name})
	testkit.WriteFile(t, path, []byte(text))
	command(t, filepath.Join(root, "bin", "examprep"), "content", "digest", "--write",
		"--by", testAccount, "--at", time.Now().UTC().Format(time.DateOnly), path)
	r.kubectl(t, "", "apply", "--server-side", "--force-conflicts", "-f", path)
}

// awaitUpdate waits until the receiver was told that an exam has changed.
func (r *release) awaitUpdate(t *testing.T, exam string) time.Duration {
	t.Helper()
	return eventually(t, 2*time.Minute, "exam.content_updated of "+exam, func() bool {
		r.stores.receiver.Read(t)
		return slices.ContainsFunc(r.stores.receiver.Updates, func(u crowdtest.ContentUpdated) bool { return u.ExamKey == exam })
	})
}

func exams(papers []*crowdtest.Paper) []string {
	var keys []string
	for _, p := range papers {
		if !slices.Contains(keys, p.Exam) {
			keys = append(keys, p.Exam)
		}
	}
	return keys
}
