package catalogtest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

// Publish publishes exams in a sandbox database, each by a claim of its name.
func Publish(t testing.TB, pool *pgxpool.Pool, exams ...catalog.Exam) {
	t.Helper()
	publisher := catalog.NewPublisher(pool, postgres.Sandbox)
	for _, exam := range exams {
		claim := catalog.Claim{Cluster: "test", Namespace: "test", Name: exam.Key}
		if _, err := publisher.Publish(t.Context(), claim, Valid(t, exam), catalog.Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Valid returns exam as a ValidExam.
func Valid(t testing.TB, exam catalog.Exam) catalog.ValidExam {
	t.Helper()
	valid, err := catalog.Validate(exam)
	check.NoError(t, err)
	return valid
}

// Exam returns an exam with one paper, KEY-2023, and a question for each right answer: A or B.
func Exam(key, name string, answers ...string) catalog.Exam {
	questions := make([]catalog.Question, len(answers))
	for i, right := range answers {
		questions[i] = catalog.Question{
			Section: 1, Number: i + 1, Prompt: "?", Options: map[string]string{"A": "one", "B": "two"},
			Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{right}},
		}
	}
	return catalog.Exam{Key: key, Name: name, DurationMinutes: 90, Papers: []catalog.Paper{{
		ID: key + "-2023", Title: "2023", Year: 2023, Questions: questions,
		Provenance: catalog.Provenance{Publisher: "Board", SourceURL: "https://example.org/2023.pdf", License: "CC0-1.0"},
	}}}
}
