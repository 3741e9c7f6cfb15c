package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	examclient "examprep.dev/api/client"
	"examprep.dev/server/command/cli"
)

// checkFlags are what a check of a running installation needs.
type checkFlags struct {
	url, key, exam string
	timeout        time.Duration
}

func newCheck() *cobra.Command {
	var flags checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a running installation as a client sees it: read an exam, open a paper, submit it",
		Long: "Opens a real attempt of the key's account and submits it without answers. The attempt appears in the history and in " +
			"webhooks like any other, so keep a separate key for it. Without a key, only the check of invalid keys runs.",
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Require("url", flags.url); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), flags.timeout)
			defer cancel()
			if flags.key == "" {
				return checkWithoutKey(ctx, &flags, cmd.OutOrStdout())
			}
			return checkWithKey(ctx, &flags, cmd.OutOrStdout())
		},
	}
	set := cmd.Flags()
	set.StringVar(&flags.url, "url", "", "base URL of the API, with its version: https://…/v1")
	set.StringVar(&flags.key, "api-key", "", "API key; without one, no paper is opened or submitted")
	set.StringVar(&flags.exam, "exam", "", "exam whose first paper is opened; empty: the first exam with a paper")
	set.DurationVar(&flags.timeout, "timeout", time.Minute, "time limit of the whole check")
	return cmd
}

// checkWithoutKey returns nil if the API rejects a request without a valid key.
func checkWithoutKey(ctx context.Context, flags *checkFlags, out io.Writer) error {
	// The client refuses to be made without a key; this one was never issued.
	stranger, err := examclient.New(flags.url, "none")
	if err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--url: %w", err)}
	}
	_, err = stranger.ListExams(ctx, "", "")
	answer, answered := errors.AsType[*examclient.Error](err)
	switch {
	case err == nil:
		return errors.New("the API answered a request without a valid key")
	case !answered || answer.Status != http.StatusUnauthorized:
		return fmt.Errorf("a request without a valid key must get a 401: %w", err)
	}
	_, err = fmt.Fprintln(out, "ok: a request without a valid key gets a 401\nSKIPPED: no API key was given, so no paper was opened or submitted")
	return err
}

// checkWithKey opens and submits a paper as a learner does.
func checkWithKey(ctx context.Context, flags *checkFlags, out io.Writer) error {
	c, err := examclient.New(flags.url, flags.key)
	if err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--url: %w", err)}
	}
	exam, paper, err := firstPaper(ctx, c, flags.exam)
	if err != nil {
		return err
	}
	if paper == "" {
		_, err = fmt.Fprintln(out, "ok: the key is accepted\nSKIPPED: no exam with a paper is published yet, so none was opened")
		return err
	}
	opened, err := c.OpenMockPaper(ctx, exam, examclient.QuestionRange{PaperID: paper, Limit: 1})
	if err != nil {
		return fmt.Errorf("open %s of %s: %w", paper, exam, err)
	}
	result, err := c.SubmitMockAttempt(ctx, exam, examclient.Submission{AttemptID: opened.AttemptID, Answers: map[string]string{}})
	if err != nil {
		return fmt.Errorf("submit %s: %w", opened.AttemptID, err)
	}
	if result.Feedback.Status != "submitted" || result.Feedback.UnansweredCount+result.Feedback.CorrectCount+result.Feedback.UngradedCount < 1 {
		return fmt.Errorf("submit %s: scored as %q with %d questions unanswered", opened.AttemptID, result.Feedback.Status, result.Feedback.UnansweredCount)
	}
	_, err = fmt.Fprintf(out, "ok: opened %s of %s (%d questions) and submitted it as attempt %s\n", paper, exam, opened.QuestionCount, opened.AttemptID)
	return err
}

// firstPaper returns the first paper of exam, or of the first exam that has one; an empty paper where nothing is
// published and no exam was asked for.
func firstPaper(ctx context.Context, c *examclient.Client, exam string) (examKey, paperID string, err error) {
	candidates := []string{exam}
	if exam == "" {
		exams, err := c.ListExams(ctx, "", "")
		if err != nil {
			return "", "", fmt.Errorf("list exams: %w", err)
		}
		candidates = candidates[:0]
		for _, e := range exams {
			candidates = append(candidates, e.ExamKey)
		}
	}
	for _, candidate := range candidates {
		catalogue, err := c.MockPapers(ctx, candidate)
		if err != nil {
			return "", "", fmt.Errorf("papers of %s: %w", candidate, err)
		}
		for _, year := range catalogue.Years {
			for _, paper := range year.Papers {
				return candidate, paper.PaperID, nil
			}
		}
	}
	if exam != "" {
		return "", "", fmt.Errorf("the exam %s has no paper", exam)
	}
	return "", "", nil
}
