package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"examprep.dev/api/client"
)

// makeAttempts opens and submits so many mock attempts with the account's API key, each by another learner.
func (s *seeder) makeAttempts(ctx context.Context, count int) error {
	if count == 0 {
		return nil
	}
	api, err := client.New(s.api, s.apiKey)
	if err != nil {
		return err
	}
	exam, paper, err := somePaper(ctx, api)
	if err != nil {
		return err
	}
	for n := range count {
		learner := fmt.Sprintf("learner-%d", n+1)
		opened, err := api.OpenMockPaper(ctx, exam, client.QuestionRange{PaperID: paper, LearnerID: learner})
		if err != nil {
			return fmt.Errorf("open %s: %w", paper, err)
		}
		submission := client.Submission{AttemptID: opened.AttemptID, Answers: answers(opened.Questions, n), LearnerID: learner}
		if _, err := api.SubmitMockAttempt(ctx, exam, submission); err != nil {
			return fmt.Errorf("submit %s: %w", paper, err)
		}
	}
	s.madef("mock attempts (%d)", count)
	return nil
}

// somePaper returns the first paper of the first exam that has one.
func somePaper(ctx context.Context, api *client.Client) (exam, paper string, err error) {
	exams, err := api.ListExams(ctx, "", "")
	if err != nil {
		return "", "", fmt.Errorf("list exams: %w", err)
	}
	for _, e := range exams {
		catalog, err := api.MockPapers(ctx, e.ExamKey)
		if err != nil {
			return "", "", fmt.Errorf("list papers of %s: %w", e.ExamKey, err)
		}
		for _, year := range catalog.Years {
			if len(year.Papers) > 0 {
				return e.ExamKey, year.Papers[0].PaperID, nil
			}
		}
	}
	return "", "", errors.New("no exam has a paper; publish one")
}

// answers choose the option of one place at each question that has options.
func answers(questions []client.MockQuestion, place int) map[string]string {
	chosen := map[string]string{}
	for _, q := range questions {
		if letters := slices.Sorted(maps.Keys(q.Options)); len(letters) > 0 {
			chosen[q.AnswerID] = letters[place%len(letters)]
		}
	}
	return chosen
}
