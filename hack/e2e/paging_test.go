//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"golang.org/x/sync/errgroup"
)

// pageSize is the largest that the specification allows.
const pageSize = 20

// pagesEqualInput reads every question of every paper through the API and compares it with the input file.
func pagesEqualInput(t *testing.T, s *stack, papers []*paper) {
	var readers errgroup.Group
	readers.SetLimit(8)
	questions := 0
	for _, p := range papers {
		questions += len(p.Questions)
		readers.Go(func() error { return s.comparePages(t.Context(), p) })
	}
	if err := readers.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d questions of %d papers equal their input", questions, len(papers))
}

func (s *stack) comparePages(ctx context.Context, p *paper) error {
	for offset := 0; offset < len(p.Questions); offset += pageSize {
		page, err := s.api.page(ctx, p, "", offset, pageSize)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", p.ID, offset, err)
		}
		want := p.Questions[offset:min(offset+pageSize, len(p.Questions))]
		if page.Total != len(p.Questions) || len(page.Questions) != len(want) {
			return fmt.Errorf("%s at %d: %d questions of %d, want %d of %d",
				p.ID, offset, len(page.Questions), page.Total, len(want), len(p.Questions))
		}
		for i, q := range want {
			if err := compare(page.Questions[i], q); err != nil {
				return fmt.Errorf("%s, question %s: %w", p.ID, q.answerID(), err)
			}
		}
	}
	return nil
}

func compare(got mockQuestion, want question) error {
	switch {
	case got.AnswerID != want.answerID():
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
