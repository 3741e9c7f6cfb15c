//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit/check"
)

// scoresFollowFromInput submits three sheets for every paper: all right, nothing, and seeded random choices.
func scoresFollowFromInput(t *testing.T, s *stack, papers []*crowdtest.Paper) {
	var learners errgroup.Group
	learners.SetLimit(8)
	negative, annulled := 0, 0
	for i, p := range papers {
		chance := rand.New(rand.NewPCG(uint64(*seed), uint64(i)))
		all, none, random := crowdtest.Fill(p, crowdtest.Rightly, chance), crowdtest.Fill(p, crowdtest.Not, chance), crowdtest.Fill(p, crowdtest.Anyhow, chance)
		if all.Score != "100" {
			t.Fatalf("%s: the computation is wrong: all right is %s", p.ID, all.Score)
		}
		if none.Score != "0" {
			annulled++ // only annulled questions earn marks for nothing
		}
		if crowdtest.Number(p.Marking.Incorrect).Sign() < 0 {
			negative++
		}
		learners.Go(func() error {
			for name, filled := range map[string]crowdtest.Sheet{"all right": all, "nothing": none, "at random": random} {
				if err := s.api.CheckScore(t.Context(), p, filled); err != nil {
					return fmt.Errorf("%s, %s: %w", p.ID, name, err)
				}
			}
			return nil
		})
	}
	check.NoError(t, learners.Wait())
	t.Logf("3 sheets for each of %d papers scored as computed; %d papers mark negatively, %d have annulled questions",
		len(papers), negative, annulled)
}
