package read_test

import (
	"errors"
	"sync"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/catalogdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestRevisionIsMarkedAsOpenedOncePerPod(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	digest := b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
	s := b.snapshot(t, read.SnapshotConfig{})
	before := b.statements.Load()
	var openers sync.WaitGroup
	for range 100 {
		openers.Go(func() {
			if err := s.MarkOpened(t.Context(), exam.Key, digest); err != nil {
				t.Error(err)
			}
		})
	}
	openers.Wait()
	if sent := b.statements.Load() - before; sent != 1 {
		t.Errorf("%d statements for 100 opens, want 1", sent)
	}
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions WHERE opened"); n != 1 {
		t.Errorf("%d opened revisions, want 1", n)
	}
	again := b.publish(t, exam)
	if again.Changed || again.Repaired != nil {
		t.Errorf("the mark counts as a change of content: %+v", again)
	}
}

func TestRepairedRevisionIsMarkedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	digest := b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
	s := b.snapshot(t, read.SnapshotConfig{})
	check.NoError(t, s.MarkOpened(t.Context(), exam.Key, digest))
	testkit.Exec(t, b.pool, "DELETE FROM exam_revision_papers; DELETE FROM paper_revisions")
	b.publish(t, exam)
	check.NoError(t, s.RefreshAll(t.Context()))
	check.NoError(t, s.MarkOpened(t.Context(), exam.Key, digest))
	if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions WHERE opened"); n != 1 {
		t.Errorf("%d opened revisions, want 1", n)
	}
}

// unlisted is a revision that may be pruned: no revision of its exam lists it.
func unlisted(t *testing.T, b *bench) (exam catalog.Exam, digest catalog.Digest) {
	t.Helper()
	exam = catalogtest.Clone(catalogtest.SampleExam())
	digest = b.publish(t, exam).PaperDigests[exam.Papers[0].ID]
	exam.Papers[0].Questions[0].Prompt = "changed"
	b.publish(t, exam)
	testkit.Exec(t, b.pool, "DELETE FROM exam_revisions WHERE revision = 1")
	return exam, digest
}

func waits(t *testing.T, b *bench, query string) func() bool {
	t.Helper()
	return func() bool {
		return testkit.Get[int](t, b.pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND query LIKE '-- name: ' || $1 || ' %'`, query) == 1
	}
}

func TestMarkThatWaitsForPruning(t *testing.T) {
	t.Parallel()
	for outcome, commits := range map[string]bool{"fails if the revision is pruned": true, "succeeds if it is not": false} {
		t.Run(outcome, func(t *testing.T) {
			b := newBench(t, postgres.Sandbox)
			exam, digest := unlisted(t, b)
			s := b.snapshot(t, read.SnapshotConfig{})
			pruning, err := b.pool.Begin(t.Context())
			check.NoError(t, err)
			prune(t, catalogdb.New(pruning), exam.Key, digest)
			marked := make(chan error, 1)
			go func() { marked <- s.MarkOpened(t.Context(), exam.Key, digest) }()
			testkit.Eventually(t, "the mark waits", waits(t, b, "MarkOpened"))
			if commits {
				err = pruning.Commit(t.Context())
			} else {
				err = pruning.Rollback(t.Context())
			}
			check.NoError(t, err)
			err = testkit.Receive(t, marked, "the mark ends")
			var unavailable *catalog.UnavailableError
			if errors.As(err, &unavailable) != commits || (err == nil) == commits {
				t.Errorf("marked: %v", err)
			}
			if _, missing := errors.AsType[*catalog.NotFoundError](err); missing {
				t.Errorf("%v is a 404, want a 503: the pod's catalogue is out of date", err)
			}
			if n := testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions WHERE opened"); (n == 1) == commits {
				t.Errorf("%d opened revisions", n)
			}
		})
	}
}

// prune prunes a revision of a paper, if it may be.
func prune(t *testing.T, q *catalogdb.Queries, exam string, digest catalog.Digest) {
	t.Helper()
	check.NoError(t, q.DropPapers(t.Context(), catalogdb.DropPapersParams{ExamKey: exam, Digests: [][]byte{digest[:]}}))
}

func TestPruningBesideAMarkKeepsTheRevision(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam, digest := unlisted(t, b)
	marking, err := b.pool.Begin(t.Context())
	check.NoError(t, err)
	if _, err := catalogdb.New(marking).MarkOpened(t.Context(), catalogdb.MarkOpenedParams{ExamKey: exam.Key, Digest: digest[:]}); err != nil {
		t.Fatal(err)
	}
	prune(t, queries(b), exam.Key, digest) // it leaves a row that is locked
	check.NoError(t, marking.Commit(t.Context()))
	prune(t, queries(b), exam.Key, digest)
	if _, err := catalogtest.AnswerKeys(t, b.snapshot(t, read.SnapshotConfig{})).Get(t.Context(), exam.Key, digest); err != nil {
		t.Errorf("the answer key of the opened revision: %v", err)
	}
}
