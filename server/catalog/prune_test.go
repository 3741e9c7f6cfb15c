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
					published, err := b.publisher.Publish(t.Context(), owner, exam, catalog.Options{HistoryLimit: limit})
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
