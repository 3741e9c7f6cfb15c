package catalog_test

import (
	"fmt"
	"testing"
	"time"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAnOldRowInTroubleKeepsNothingFromBeingPublished publishes while one row that must be pruned cannot be written.
func TestAnOldRowInTroubleKeepsNothingFromBeingPublished(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ table, column, value string }{
		{"exam_revisions", "revision", "2"},
		{"exam_revision_papers", "revision", "2"}, // a revision takes it along
		{"paper_revisions", "digest", "(SELECT digest FROM exam_revision_papers WHERE revision = 2 LIMIT 1)"},
	} {
		for _, trouble := range testkit.Troubles() {
			t.Run(row.table+" "+string(trouble), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, postgres.Sandbox)
				clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				b.publisher.SetClock(func() time.Time { return clock })
				exam := catalogtest.Clone(catalogtest.SampleExam())
				publish := func(revision, limit int) {
					t.Helper()
					exam.Papers[0].Questions[0].Prompt = fmt.Sprintf("revision %d", revision)
					clock = clock.Add(2 * time.Hour)
					published, err := b.publisher.Publish(t.Context(), owner, catalogtest.Valid(t, exam), catalog.Options{HistoryLimit: limit})
					check.NoError(t, err)
					check.Equal(t, published.Revision, int64(revision), "revision")
				}
				for revision := range 5 {
					publish(revision+1, 0)
				}
				value := row.value
				if row.column == "digest" {
					value = testkit.Get[string](t, b.pool, `SELECT x.digest::text FROM exam_revision_papers x JOIN paper_revisions p USING (digest)
						WHERE x.revision = 2 AND p.paper_id = $1`, exam.Papers[0].ID)
				}
				revisions := func(want ...int64) {
					t.Helper()
					check.Slices(t, testkit.List[int64](t, b.pool, "SELECT revision FROM exam_revisions ORDER BY 1"), want, "revisions")
				}
				papers := func() int {
					return testkit.Get[int](t, b.pool, "SELECT count(*) FROM paper_revisions WHERE paper_id = $1", exam.Papers[0].ID)
				}
				end := trouble.Begin(t, b.pool, row.table, row.column, value)
				publish(6, 2)
				if trouble == testkit.Slow || row.column == "digest" {
					revisions(5, 6)
				} else {
					revisions(2, 5, 6)
				}
				left := 3 // the last two, and that of revision 2
				if trouble == testkit.Slow {
					left = 2
				}
				check.Equal(t, papers(), left, "revisions of the paper beside the trouble")
				end()
				publish(7, 2)
				revisions(6, 7)
				check.Equal(t, papers(), 2, "revisions of the paper")
			})
		}
	}
}

// history publishes revisions of one exam, two hours apart.
type history struct {
	*bench
	exam  catalog.Exam
	clock time.Time
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{bench: newBench(t, postgres.Sandbox), exam: catalogtest.Clone(catalogtest.SampleExam())}
	h.clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h.publisher.SetClock(func() time.Time { return h.clock })
	return h
}

func (h *history) next(t *testing.T, options catalog.Options) catalog.Publication {
	t.Helper()
	return h.nextOrPin(t, 0, options)
}

// nextOrPin publishes the next version, or revision pin if that is not 0.
func (h *history) nextOrPin(t *testing.T, pin int64, options catalog.Options) catalog.Publication {
	t.Helper()
	h.clock = h.clock.Add(2 * time.Hour)
	h.exam.Papers[0].Questions[0].Prompt = "published at " + h.clock.String()
	published, err := h.try(t, owner, h.exam, pin, options)
	check.NoError(t, err)
	return published
}

func (h *history) revisions(t *testing.T, want ...int64) {
	t.Helper()
	check.Slices(t, testkit.List[int64](t, h.pool, "SELECT revision FROM exam_revisions ORDER BY 1"), want, "revisions")
}

// A roll-back to the oldest kept revision makes one more revision than the limit keeps.
func TestARollBackKeepsTheRevisionThatItRestores(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for range 3 {
		h.next(t, catalog.Options{HistoryLimit: 3})
	}
	for range 3 { // the first restores, the others are resyncs
		restored := h.nextOrPin(t, 1, catalog.Options{HistoryLimit: 3})
		check.Equal(t, restored.Revision, 4, "revision")
		h.revisions(t, 1, 2, 3, 4)
	}
	h.next(t, catalog.Options{HistoryLimit: 3}) // without the pin, 1 is as old as it is
	h.revisions(t, 3, 4, 5)
}

// A restored backup leaves a gap: the operator remembers revision 50, the database has five.
func TestPruningCountsRevisionsAndNotNumbers(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for range 5 {
		h.next(t, catalog.Options{HistoryLimit: 10})
	}
	remembered := catalog.Remembered{Revision: 50, PublishedAt: h.clock}
	check.Equal(t, h.next(t, catalog.Options{HistoryLimit: 10, Remembered: remembered}).Revision, 51, "revision")
	h.revisions(t, 1, 2, 3, 4, 5, 51)
	for range 5 {
		h.next(t, catalog.Options{HistoryLimit: 10})
	}
	h.revisions(t, 2, 3, 4, 5, 51, 52, 53, 54, 55, 56)
}
