package attempts

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// age makes all revisions two hours older, so that those beyond the history limit can be pruned.
func (b *bench) age(t *testing.T) {
	t.Helper()
	testkit.Exec(t, b.pool, "UPDATE exam_revisions SET created_at = created_at - interval '2 hours'")
}

func answerA(opened Opened) SubmitRequest {
	return SubmitRequest{ExamKey: testExam, AttemptID: opened.AttemptID, Answers: []marking.Answer{{Key: "1", Value: "a"}}}
}

func TestAttemptsSurviveAnUnreadableExam(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	publish, _ := b.onCatalogue(t)
	damaged := catalog.Exam{Key: otherExam, Name: "Damaged"}
	publisher := catalog.NewPublisher(b.pool, postgres.Sandbox)
	if _, err := publisher.Publish(t.Context(), catalog.Claim{Cluster: "default", Namespace: "default", Name: otherExam}, catalogtest.Valid(t, damaged), catalog.Options{}); err != nil {
		t.Fatal(err)
	}
	publish(published("A", "before"))
	who := b.someone(t)
	first := b.open(t, who, "")
	testkit.Exec(t, b.pool, "UPDATE exam_revisions SET document = '[]' WHERE exam_key = $1", otherExam)
	testkit.Exec(t, b.pool, "UPDATE exams SET repairs = repairs + 1 WHERE exam_key = $1", otherExam)
	testkit.Exec(t, b.pool, "SELECT pg_notify('examprep_catalog', $1)", otherExam)
	opened := []Opened{first}
	for i := range 3 {
		publish(published("A", fmt.Sprintf("after %d", i)))
		b.age(t)
		opened = append(opened, b.open(t, who, ""))
	}
	publish(published("B", "last"))
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM exam_revisions WHERE exam_key = $1", testExam); n != 2 {
		t.Errorf("%d revisions of 5 are left, want the last and the one that it superseded just now", n)
	}
	for i, attempt := range opened {
		if result, err := b.Submit(t.Context(), who, answerA(attempt)); err != nil || result.Feedback.Score.String() != "100" {
			t.Errorf("attempt %d: %s, %v", i, toJSON(t, result), err)
		}
	}
}

// laggingPod puts the bench's engine on a catalogue that never learns of another revision than the first, and has its paper
// in the cache. publish publishes others; each may prune what was published before.
func laggingPod(t *testing.T, b *bench, who keys.Identity) (publish func(catalog.Exam)) {
	t.Helper()
	publisher := catalog.NewPublisher(b.pool, postgres.Sandbox)
	publish = func(exam catalog.Exam) {
		t.Helper()
		claim := catalog.Claim{Cluster: "default", Namespace: "default", Name: testExam}
		if _, err := publisher.Publish(t.Context(), claim, catalogtest.Valid(t, exam), catalog.Options{HistoryLimit: 1}); err != nil {
			t.Error(err)
		}
	}
	publish(published("A", "first"))
	lagging, err := read.OpenSnapshot(t.Context(), b.pool, slog.New(slog.DiscardHandler), read.SnapshotConfig{LoadTimeout: testkit.Patience})
	check.NoError(t, err)
	b.papers = NewPapers(lagging)
	if _, err := b.Page(t.Context(), who, PageRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	publish(published("B", "second"))
	b.age(t)
	return publish
}

// neverLost fails unless an open was refused with a 503, or its attempt can be submitted.
func (b *bench) neverLost(t *testing.T, who keys.Identity, opened Opened, err error) {
	t.Helper()
	var unavailable *catalog.UnavailableError
	switch {
	case err == nil:
		if _, err := b.Submit(t.Context(), who, answerA(opened)); err != nil {
			t.Errorf("the attempt is lost: submit: %v", err)
		}
	case !errors.As(err, &unavailable):
		t.Errorf("open: %v, want an UnavailableError", err)
	}
}

func TestLaggingPodOpensNoPrunedPaper(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.someone(t)
	publish := laggingPod(t, b, who)
	publish(published("A", "third"))
	opened, err := b.Open(t.Context(), who, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1})
	if err == nil {
		t.Errorf("a pruned paper was opened")
	}
	b.neverLost(t, who, opened, err)
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM attempts"); n != 0 {
		t.Errorf("%d attempts were stored, want none", n)
	}
}

func TestPaperOfALaggingPodOutlivesPruning(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.someone(t)
	publish := laggingPod(t, b, who)
	opened := b.open(t, who, "")
	publish(published("A", "third"))
	if _, err := b.Submit(t.Context(), who, answerA(opened)); err != nil {
		t.Error(err)
	}
}

func TestOpenDuringPruningLosesNoAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.someone(t)
	publish := laggingPod(t, b, who)
	// The publisher has pruned the paper, and waits for the holder before it commits.
	testkit.Exec(t, b.pool, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER hold AFTER DELETE ON paper_revisions DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION hold()`)
	holder, err := b.pool.Begin(t.Context())
	check.NoError(t, err)
	defer func() { _ = holder.Rollback(t.Context()) }()
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(42)"); err != nil {
		t.Fatal(err)
	}
	pruned, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(pruned); publish(published("A", "third")) }()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	testkit.Eventually(t, "the publisher waits", func() bool { return testkit.Get[int](t, b.pool, waiting+" AND wait_event = 'advisory'") == 1 })
	var opened Opened
	var openErr error
	go func() {
		defer close(ended)
		opened, openErr = b.Open(t.Context(), who, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1})
	}()
	testkit.Eventually(t, "the open ends, or waits for the publisher", func() bool {
		select {
		case <-ended:
			return true
		default:
			return testkit.Get[int](t, b.pool, waiting) == 2
		}
	})
	check.NoError(t, holder.Rollback(t.Context()))
	<-pruned
	<-ended
	b.neverLost(t, who, opened, openErr)
}

func TestPageOfAnAttemptNeedsNoReadableExam(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	publish, _ := b.onCatalogue(t)
	publish(published("A", "before"))
	who, other := b.someone(t), b.someone(t)
	opened := b.open(t, who, "")
	testkit.Exec(t, b.pool, "UPDATE exam_revisions SET document = '[]'")
	fresh, err := read.OpenSnapshot(t.Context(), b.pool, slog.New(slog.DiscardHandler), read.SnapshotConfig{LoadTimeout: testkit.Patience})
	check.NoError(t, err)
	b.papers = NewPapers(fresh)
	page := PageRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1}
	if got, err := b.Page(t.Context(), who, page); err != nil || !strings.Contains(string(got.Questions[0]), "before") {
		t.Errorf("with an attempt: %s, %v", got.Questions, err)
	}
	var unavailable *catalog.UnavailableError
	if _, err := b.Page(t.Context(), other, page); !errors.As(err, &unavailable) {
		t.Errorf("without an attempt: %v, want an UnavailableError", err)
	}
	if _, err := b.Open(t.Context(), other, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1}); !errors.As(err, &unavailable) {
		t.Errorf("open: %v, want an UnavailableError", err)
	}
	_, err = b.Submit(t.Context(), other, answerA(opened))
	wantCode(t, err, CodeAttemptNotFound)
	if history, err := b.History(t.Context(), other, HistoryRequest{ExamKey: testExam, Limit: 10}); err != nil || history.Total != 0 {
		t.Errorf("history: %s, %v", toJSON(t, history), err)
	}
	if _, err := b.Submit(t.Context(), who, answerA(opened)); err != nil {
		t.Errorf("submit: %v", err)
	}
}
