package catalog

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

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
			exam, other := sampleExam(), Exam{Key: "aa-other", Name: "Other"}
			b.publish(t, exam)
			b.publish(t, other)
			var logs testkit.Record
			running, err := OpenSnapshot(t.Context(), b.pool, slog.New(slog.NewJSONHandler(&logs, nil)), SnapshotConfig{PollInterval: 20 * time.Millisecond})
			check.NoError(t, err)
			exam.Name, other.Name = "Second name", "Other second name"
			b.publish(t, exam)
			b.publish(t, other)
			testkit.Exec(t, b.pool, test.damage)
			b.pool.Reset() // for corrupt

			testkit.Run(t, running.Run)
			fresh := b.snapshot(t, SnapshotConfig{PollInterval: 20 * time.Millisecond})
			if !fresh.Ready() || !strings.Contains(nameOf(fresh, other.Key), other.Name) || len(fresh.List()) != 1 {
				t.Errorf("a new pod: ready %t, serves %s", fresh.Ready(), nameOf(fresh, other.Key))
			}
			checkUnreadable(t, fresh, exam)
			view := fresh.current.Load()
			if err := fresh.refresh(t.Context(), request{all: true}); err != nil || fresh.current.Load() != view {
				t.Errorf("the catalogue of a new pod changed without a change of content (%v)", err)
			}
			testkit.Run(t, fresh.Run)
			testkit.Eventually(t, "the running pod serves the other exam's revision", func() bool {
				return strings.Contains(nameOf(running, other.Key), other.Name)
			})
			if got := nameOf(running, exam.Key); !strings.Contains(got, "Sample exam") || running.unreadableExams() != 1 {
				t.Errorf("the running pod serves %q and counts %d unreadable exams, want its last view and 1", got, running.unreadableExams())
			}
			if _, err := running.Paper(t.Context(), exam.Key, "xx-sample-2023"); err != nil || !running.Republished(exam.Key, "xx-sample-2023") {
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
			for _, s := range []*Snapshot{running, fresh} {
				testkit.Eventually(t, "the repaired exam", func() bool {
					return strings.Contains(nameOf(s, exam.Key), exam.Name) && s.unreadableExams() == 0 && len(s.List()) == 2
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
func checkUnreadable(t *testing.T, s *Snapshot, exam Exam) {
	t.Helper()
	var unavailable *UnavailableError
	var unreadable *UnreadableError
	if _, err := s.Overview(exam.Key); !errors.As(err, &unavailable) || !errors.As(err, &unreadable) {
		t.Errorf("overview: %v, want an UnavailableError for an UnreadableError", err)
	}
	if _, err := s.Paper(t.Context(), exam.Key, exam.Papers[0].ID); !errors.As(err, &unavailable) {
		t.Errorf("paper: %v, want an UnavailableError", err)
	}
	if !s.Republished(exam.Key, exam.Papers[0].ID) || s.unreadableExams() != 1 {
		t.Errorf("republished %t, %d unreadable exams", s.Republished(exam.Key, exam.Papers[0].ID), s.unreadableExams())
	}
}

func TestWithdrawnExamNeedsNoDocument(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := sampleExam()
	b.publish(t, exam)
	check.NoError(t, b.publisher.Release(t.Context(), owner, exam.Key, true))
	testkit.Exec(t, b.pool, "UPDATE exam_revisions SET document = '[]'")
	s := b.snapshot(t, SnapshotConfig{})
	var missing *NotFoundError
	if _, err := s.Overview(exam.Key); !errors.As(err, &missing) || s.unreadableExams() != 0 {
		t.Errorf("got %v and %d unreadable exams, want no such exam and none", err, s.unreadableExams())
	}
	testkit.Exec(t, b.pool, "UPDATE exams SET withdrawn = false")
	check.NoError(t, s.refresh(t.Context(), request{all: true}))
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
			exam := sampleExam()
			digest := b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
			testkit.Exec(t, b.pool, test.damage)
			s := b.snapshot(t, SnapshotConfig{})
			read := func() error {
				_, err := s.Paper(t.Context(), exam.Key, exam.Papers[0].ID)
				if err == nil {
					_, err = s.AnswerKey(t.Context(), exam.Key, digest)
				}
				return err
			}
			var unreadable *UnreadableError
			var unavailable *UnavailableError
			if err := read(); !errors.As(err, &unreadable) || errors.As(err, &unavailable) {
				t.Errorf("got %v, want an UnreadableError", err)
			}
			if err := s.refresh(t.Context(), request{all: true}); err != nil || s.unreadableExams() != 1 {
				t.Errorf("%d unreadable exams after a poll, want 1 (%v)", s.unreadableExams(), err)
			}
			if test.repair == "" {
				b.publish(t, exam)
			} else {
				testkit.Exec(t, b.pool, test.repair)
			}
			if err := s.refresh(t.Context(), request{all: true}); err != nil || s.unreadableExams() != 0 {
				t.Errorf("%d unreadable exams after the repair, want 0 (%v)", s.unreadableExams(), err)
			}
			if err := read(); err != nil {
				t.Error(err)
			}
		})
	}
}
