//go:build e2e

package e2e

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit/check"
)

// pagesEqualInput reads every question of every paper through the API and compares it with the input file.
func pagesEqualInput(t *testing.T, s *stack, papers []*crowdtest.Paper) {
	var readers errgroup.Group
	readers.SetLimit(8)
	questions := 0
	for _, p := range papers {
		questions += len(p.Questions)
		readers.Go(func() error { return s.api.CheckPages(t.Context(), p) })
	}
	check.NoError(t, readers.Wait())
	t.Logf("%d questions of %d papers equal their input", questions, len(papers))
}
