package read_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// corrupt replaces a table by a view that fails like corrupted storage when a row of the exam xx-sample is read. New
// connections read only the rows that they ask for.
func corrupt(table, column, columns string) string {
	return fmt.Sprintf(`ALTER TABLE %[1]s RENAME TO real_%[1]s;
		CREATE FUNCTION corrupted() RETURNS json STABLE LANGUAGE plpgsql AS
			$$ BEGIN RAISE 'missing chunk number 0 for toast value' USING ERRCODE = 'XX001'; END $$;
		CREATE VIEW %[1]s AS SELECT %[3]s, CASE WHEN exam_key = 'xx-sample' THEN corrupted() ELSE %[2]s END AS %[2]s
		FROM real_%[1]s;
		DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %%I SET enable_seqscan = off', current_database());
			EXECUTE format('ALTER DATABASE %%I SET enable_hashjoin = off', current_database());
			EXECUTE format('ALTER DATABASE %%I SET enable_mergejoin = off', current_database());
		END $$`, table, column, columns)
}

func restored(table string) string {
	return fmt.Sprintf("DROP VIEW %[1]s; DROP FUNCTION corrupted; ALTER TABLE real_%[1]s RENAME TO %[1]s", table)
}

func TestUnreadableExamKeepsItsLastViewAndOthersAreRefreshed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ damage, repair string }{
		"document of another type": {damage: "UPDATE exam_revisions SET document = '[]' WHERE exam_key = 'xx-sample'"},
		"document without its key": {damage: "UPDATE exam_revisions SET document = '{}' WHERE exam_key = 'xx-sample'"},
		"missing revision":         {damage: "DELETE FROM exam_revisions WHERE exam_key = 'xx-sample'"},
		"corrupted storage": {
			damage: corrupt("exam_revisions", "document", "exam_key, revision"), repair: restored("exam_revisions"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Sandbox)
			exam, other := catalogtest.SampleExam(), catalog.Exam{Key: "aa-other", Name: "Other"}
			b.publish(t, exam)
			b.publish(t, other)
			var logs testkit.Record
			running, err := read.OpenSnapshot(t.Context(), b.pool, slog.New(slog.NewJSONHandler(&logs, nil)), read.SnapshotConfig{
				PollInterval: 20 * time.Millisecond, LoadTimeout: testkit.Patience,
			})
			check.NoError(t, err)
			exam.Name, other.Name = "Second name", "Other second name"
			b.publish(t, exam)
			b.publish(t, other)
			testkit.Exec(t, b.pool, test.damage)
			b.pool.Reset() // for corrupt

			testkit.Run(t, running.Run)
			fresh := b.snapshot(t, read.SnapshotConfig{PollInterval: 20 * time.Millisecond})
			if !fresh.Ready() || !strings.Contains(nameOf(fresh, other.Key), other.Name) || len(fresh.List()) != 1 {
				t.Errorf("a new pod: ready %t, serves %s", fresh.Ready(), nameOf(fresh, other.Key))
			}
			checkUnreadable(t, fresh, exam)
			view := fresh.View()
			if err := fresh.RefreshAll(t.Context()); err != nil || fresh.View() != view {
				t.Errorf("the catalogue of a new pod changed without a change of content (%v)", err)
			}
			testkit.Run(t, fresh.Run)
			testkit.Eventually(t, "the running pod serves the other exam's revision", func() bool {
				return strings.Contains(nameOf(running, other.Key), other.Name)
			})
			if got := nameOf(running, exam.Key); !strings.Contains(got, "Sample exam") || running.UnreadableExams() != 1 {
				t.Errorf("the running pod serves %q and counts %d unreadable exams, want its last view and 1", got, running.UnreadableExams())
			}
			if _, err := running.Paper(t.Context(), exam.Key, "xx-sample-2023"); err != nil || !running.HasOtherRevisions(exam.Key, "xx-sample-2023") {
				t.Errorf("a paper of the last view: %v; an attempt must be looked up, as other pods can have served another revision", err)
			}
			other.Name = "Other third name"
			if test.repair == "" {
				b.publish(t, other)
				testkit.Eventually(t, "the next revision of the other exam", func() bool {
					return strings.Contains(nameOf(running, other.Key), other.Name) && strings.Contains(nameOf(fresh, other.Key), other.Name)
				})
				b.publish(t, exam)
			} else {
				testkit.Exec(t, b.pool, test.repair)
			}
			for _, s := range []*read.Snapshot{running, fresh} {
				testkit.Eventually(t, "the repaired exam", func() bool {
					return strings.Contains(nameOf(s, exam.Key), exam.Name) && s.UnreadableExams() == 0 && len(s.List()) == 2
				})
			}
			for _, message := range []string{"exam cannot be read;", "exam can be read again"} {
				if n := strings.Count(logs.String(), message); n != 1 {
					t.Errorf("%q is logged %d times, want once: %s", message, n, logs.String())
				}
			}
		})
	}
}

// checkUnreadable checks a pod that could never read the exam.
func checkUnreadable(t *testing.T, s *read.Snapshot, exam catalog.Exam) {
	t.Helper()
	var unavailable *catalog.UnavailableError
	var unreadable *catalog.UnreadableError
	if _, err := s.Overview(exam.Key); !errors.As(err, &unavailable) || !errors.As(err, &unreadable) {
		t.Errorf("overview: %v, want an UnavailableError for an UnreadableError", err)
	}
	if _, err := s.Paper(t.Context(), exam.Key, exam.Papers[0].ID); !errors.As(err, &unavailable) {
		t.Errorf("paper: %v, want an UnavailableError", err)
	}
	if !s.HasOtherRevisions(exam.Key, exam.Papers[0].ID) || s.UnreadableExams() != 1 {
		t.Errorf("republished %t, %d unreadable exams", s.HasOtherRevisions(exam.Key, exam.Papers[0].ID), s.UnreadableExams())
	}
}

func TestWithdrawnExamNeedsNoDocument(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	b.publish(t, exam)
	check.NoError(t, b.publisher.Release(t.Context(), owner, exam.Key, true))
	testkit.Exec(t, b.pool, "UPDATE exam_revisions SET document = '[]'")
	s := b.snapshot(t, read.SnapshotConfig{})
	var missing *catalog.NotFoundError
	if _, err := s.Overview(exam.Key); !errors.As(err, &missing) || s.UnreadableExams() != 0 {
		t.Errorf("got %v and %d unreadable exams, want no such exam and none", err, s.UnreadableExams())
	}
	testkit.Exec(t, b.pool, "UPDATE exams SET withdrawn = false")
	check.NoError(t, s.RefreshAll(t.Context()))
	checkUnreadable(t, s, exam)
}

func TestUnreadableDocumentIsNoOutage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ damage, repair string }{
		"questions of another type": {damage: "UPDATE paper_revisions SET questions = '7'"},
		"questions left out":        {damage: "UPDATE paper_revisions SET questions = '[]'"},
		"key of another type":       {damage: "UPDATE paper_answer_keys SET answer_key = '[]'"},
		"key without questions":     {damage: "UPDATE paper_answer_keys SET answer_key = '{}'"},
		"missing key":               {damage: "DELETE FROM paper_answer_keys"},
		"corrupted storage": {
			damage: corrupt("paper_answer_keys", "answer_key", "exam_key, digest"), repair: restored("paper_answer_keys"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Sandbox)
			exam := catalogtest.SampleExam()
			digest := b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
			testkit.Exec(t, b.pool, test.damage)
			s := b.snapshot(t, read.SnapshotConfig{})
			keys := catalogtest.AnswerKeys(t, s)
			read := func() error {
				_, err := s.Paper(t.Context(), exam.Key, exam.Papers[0].ID)
				if err == nil {
					_, err = keys.Get(t.Context(), exam.Key, digest)
				}
				return err
			}
			var unreadable *catalog.UnreadableError
			var unavailable *catalog.UnavailableError
			if err := read(); !errors.As(err, &unreadable) || errors.As(err, &unavailable) {
				t.Errorf("got %v, want an UnreadableError", err)
			}
			if err := s.RefreshAll(t.Context()); err != nil || s.UnreadableExams() != 1 {
				t.Errorf("%d unreadable exams after a poll, want 1 (%v)", s.UnreadableExams(), err)
			}
			if test.repair == "" {
				b.publish(t, exam)
			} else {
				testkit.Exec(t, b.pool, test.repair)
			}
			if err := s.RefreshAll(t.Context()); err != nil || s.UnreadableExams() != 0 {
				t.Errorf("%d unreadable exams after the repair, want 0 (%v)", s.UnreadableExams(), err)
			}
			if err := read(); err != nil {
				t.Error(err)
			}
		})
	}
}
