//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"
)

// scoresFollowFromInput submits three sheets for every paper: all right, nothing, and seeded random choices.
func scoresFollowFromInput(t *testing.T, s *stack, papers []*paper) {
	var learners errgroup.Group
	learners.SetLimit(8)
	negative, annulled := 0, 0
	for i, p := range papers {
		chance := rand.New(rand.NewPCG(uint64(*seed), uint64(i)))
		all, none, random := fill(p, rightly, chance), fill(p, not, chance), fill(p, anyhow, chance)
		if all.Score != "100" {
			t.Fatalf("%s: the computation is wrong: all right is %s", p.ID, all.Score)
		}
		if none.Score != "0" {
			annulled++ // only annulled questions earn marks for nothing
		}
		if number(p.Marking.Incorrect).Sign() < 0 {
			negative++
		}
		learners.Go(func() error {
			for name, filled := range map[string]sheet{"all right": all, "nothing": none, "at random": random} {
				if err := s.checkScore(t.Context(), p, filled); err != nil {
					return fmt.Errorf("%s, %s: %w", p.ID, name, err)
				}
			}
			return nil
		})
	}
	if err := learners.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("3 sheets for each of %d papers scored as computed; %d papers mark negatively, %d have annulled questions",
		len(papers), negative, annulled)
}

func (s *stack) checkScore(ctx context.Context, p *paper, filled sheet) error {
	opened, err := s.api.open(ctx, p, "", 1)
	if err != nil {
		return err
	}
	if opened.QuestionCount != len(p.Questions) || len(opened.Questions) != 1 || opened.Paper != p.ID {
		return fmt.Errorf("opened %d of %d questions of %s", len(opened.Questions), opened.QuestionCount, opened.Paper)
	}
	result, err := s.api.submit(ctx, p, "", opened.ID, filled.Answers)
	if err != nil {
		return err
	}
	got := result.Feedback
	if !result.Success || got.Status != "submitted" || got.Score.String() != filled.Score ||
		number(got.RawScore).Cmp(filled.Raw) != 0 || number(got.MaxScore).Cmp(filled.Max) != 0 {
		return fmt.Errorf("%s: score %s, %s of %s marks; want %s, %s of %s", got.Status, got.Score, got.RawScore, got.MaxScore,
			filled.Score, filled.Raw.RatString(), filled.Max.RatString())
	}
	return nil
}
