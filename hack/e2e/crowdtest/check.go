package crowdtest

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"
)

// CheckPages reads every question of a paper and says what differs from the input; nil: nothing.
func (a *API) CheckPages(ctx context.Context, p *Paper) error {
	for offset := 0; offset < len(p.Questions); offset += PageSize {
		page, err := a.Page(ctx, p, "", offset, PageSize)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", p.ID, offset, err)
		}
		want := p.Questions[offset:min(offset+PageSize, len(p.Questions))]
		if page.Total != len(p.Questions) || len(page.Questions) != len(want) {
			return fmt.Errorf("%s at %d: %d questions of %d, want %d of %d",
				p.ID, offset, len(page.Questions), page.Total, len(want), len(p.Questions))
		}
		for i, q := range want {
			if err := Compare(page.Questions[i], q); err != nil {
				return fmt.Errorf("%s, question %s: %w", p.ID, q.AnswerID(), err)
			}
		}
	}
	return nil
}

// Compare says how a question that was served differs from the data sets'; nil: not at all.
func Compare(got ServedQuestion, want Question) error {
	switch {
	case got.AnswerID != want.AnswerID():
		return fmt.Errorf("answer_id is %q", got.AnswerID)
	case got.Number != want.Number:
		return fmt.Errorf("question_number is %d", got.Number)
	case got.Prompt != want.Prompt:
		return fmt.Errorf("prompt is %q, want %q", got.Prompt, want.Prompt)
	case got.QuestionText != want.Prompt:
		return fmt.Errorf("question_text is %q", got.QuestionText)
	case (got.Options == nil) != (want.Options == nil) || !maps.Equal(got.Options, want.Options):
		return fmt.Errorf("options are %q, want %q", got.Options, want.Options)
	case got.HasVisual != want.HasVisual:
		return fmt.Errorf("has_visual is %v", got.HasVisual)
	}
	return nil
}

// CheckScore sits a paper with a filled-in sheet and says how its marks differ from the sheet's worth; nil: not at all.
func (a *API) CheckScore(ctx context.Context, p *Paper, filled Sheet) error {
	opened, err := a.Open(ctx, p, "", 1)
	if err != nil {
		return err
	}
	if opened.QuestionCount != len(p.Questions) || len(opened.Questions) != 1 || opened.Paper != p.ID {
		return fmt.Errorf("opened %d of %d questions of %s", len(opened.Questions), opened.QuestionCount, opened.Paper)
	}
	result, err := a.Submit(ctx, p, "", opened.ID, filled.Answers)
	if err != nil {
		return err
	}
	got := result.Feedback
	if !result.Success || got.Status != "submitted" || got.Score.String() != filled.Score ||
		Number(got.RawScore).Cmp(filled.Raw) != 0 || Number(got.MaxScore).Cmp(filled.Max) != 0 {
		return fmt.Errorf("%s: score %s, %s of %s marks; want %s, %s of %s", got.Status, got.Score, got.RawScore, got.MaxScore,
			filled.Score, filled.Raw.RatString(), filled.Max.RatString())
	}
	return nil
}

// Eventually waits until done holds, looking once every so often, and fails the test at the limit. It returns how long that
// took.
func Eventually(t testing.TB, limit, every time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done() {
		if time.Since(began) > limit {
			t.Fatalf("waited %s in vain for %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(began)
}
