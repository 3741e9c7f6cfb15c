package attempts

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// published is an exam of one question whose right letter and prompt a revision changes.
func published(letter, prompt string) catalog.Exam {
	return catalog.Exam{
		Key: testExam, Name: "An exam", DurationMinutes: minutes,
		Papers: []catalog.Paper{{
			ID: testPaper, Title: "A paper", Year: 2020, Marking: &catalog.Marking{Correct: 3, Incorrect: -1},
			Provenance: catalog.Provenance{Publisher: "A board", SourceURL: "https://example.com/", License: "MIT"},
			Questions: []catalog.Question{{
				Section: 1, Number: 1, Prompt: prompt, Options: map[string]string{"A": "one", "B": "two"},
				Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{letter}},
			}},
		}},
	}
}

// onCatalogue puts the bench's engine on the real catalogue, and returns the publisher of its only exam.
func (b *bench) onCatalogue(t *testing.T) (publish func(catalog.Exam), withdraw func()) {
	t.Helper()
	snapshot, err := read.OpenSnapshot(t.Context(), b.pool, slog.New(slog.DiscardHandler), read.SnapshotConfig{})
	check.NoError(t, err)
	testkit.Run(t, snapshot.Run)
	b.papers = NewPapers(snapshot)
	publisher := catalog.NewPublisher(b.pool, postgres.Sandbox)
	claim := catalog.Claim{Cluster: "default", Namespace: "default", Name: testExam}
	publish = func(exam catalog.Exam) {
		t.Helper()
		if _, err := publisher.Publish(t.Context(), claim, catalogtest.Valid(t, exam), catalog.Options{HistoryLimit: 1}); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the snapshot has the publication", func() bool {
			paper, err := snapshot.Paper(t.Context(), testExam, testPaper)
			return err == nil && strings.Contains(string(paper.Questions[0]), exam.Papers[0].Questions[0].Prompt)
		})
	}
	withdraw = func() {
		t.Helper()
		check.NoError(t, publisher.Release(t.Context(), claim, testExam, true))
		testkit.Eventually(t, "the snapshot has the withdrawal", func() bool { _, err := snapshot.Overview(testExam); return err != nil })
	}
	return publish, withdraw
}

func TestOnTheRealCatalogueAnAttemptOutlivesItsRevision(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	publish, withdraw := b.onCatalogue(t)
	publish(published("A", "before"))
	who := b.someone(t)
	early, late := b.open(t, who, "ann"), b.open(t, who, "bob")
	for i := range 3 { // more publications than the history keeps
		publish(published("B", fmt.Sprintf("after %d", i)))
	}
	page := func(learner string) (Page, error) {
		return b.Page(t.Context(), who, PageRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1, LearnerID: learner})
	}
	if got, err := page("ann"); err != nil || !strings.Contains(string(got.Questions[0]), "before") {
		t.Errorf("with an attempt: %s, %v", got.Questions, err)
	}
	if got, err := page("carol"); err != nil || !strings.Contains(string(got.Questions[0]), "after 2") {
		t.Errorf("without an attempt: %s, %v", got.Questions, err)
	}
	submit := func(opened Opened, learner string) {
		t.Helper()
		result, err := b.Submit(t.Context(), who, SubmitRequest{
			ExamKey: testExam, AttemptID: opened.AttemptID, LearnerID: learner, Answers: []marking.Answer{{Key: "1", Value: "a"}},
		})
		if err != nil || result.Feedback.Score.String() != "100" {
			t.Errorf("got %s, %v", toJSON(t, result), err)
		}
	}
	submit(early, "ann")
	withdraw()
	if got, err := page("bob"); err != nil || !strings.Contains(string(got.Questions[0]), "before") {
		t.Errorf("with an attempt at a withdrawn exam: %s, %v", got.Questions, err)
	}
	submit(late, "bob")
	_, err := b.Open(t.Context(), who, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1})
	wantCode(t, err, CodeExamNotFound)
	if history, err := b.History(t.Context(), who, HistoryRequest{ExamKey: testExam, Limit: 10}); err != nil || history.Total != 2 {
		t.Errorf("history of a withdrawn exam: %s, %v", toJSON(t, history), err)
	}
}

// TestAPageOfAPodThatIsBehind has a learner open a revision that another pod has not heard of.
func TestAPageOfAPodThatIsBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	publish, _ := b.onCatalogue(t)
	who := b.someone(t)
	publish(published("A", "the first prompt"))
	pod := b.pod(t)
	pod.papers = NewPapers(catalogtest.OpenPatientSnapshot(t, b.pool, read.SnapshotConfig{})) // it does not run
	publish(published("B", "the second prompt"))
	b.open(t, who, "ann")
	page := func(learner string) string {
		t.Helper()
		got, err := pod.Page(t.Context(), who, PageRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1, LearnerID: learner})
		check.NoError(t, err)
		return string(got.Questions[0])
	}
	if got := page("ann"); !strings.Contains(got, "the second prompt") {
		t.Errorf("the learner pages %s", got)
	}
	if got := page("bob"); !strings.Contains(got, "the first prompt") {
		t.Errorf("without an attempt: %s", got)
	}
	restore := testkit.CutOff(t, b.pool)
	defer restore()
	if got := page("bob"); !strings.Contains(got, "the first prompt") {
		t.Errorf("without PostgreSQL: %s", got)
	}
}
