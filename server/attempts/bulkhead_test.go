package attempts

import (
	"context"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// countingShelf counts the calls that are about to open an attempt.
type countingShelf struct {
	*shelf

	opening atomic.Int64
}

func (s *countingShelf) MarkOpened(ctx context.Context, exam string, digest catalog.Digest) error {
	s.opening.Add(1)
	return s.shelf.MarkOpened(ctx, exam, digest)
}

// TestBusyFamilyLeavesConnectionsToOthers: another session blocks the calls of one family, more than the pool has connections, until
// other families have read their history.
func TestBusyFamilyLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	const calls, others = 48, 50
	for name, c := range map[string]struct {
		// block makes the calls of a family wait until the transaction ends.
		block func(t *testing.T, b *bench, family keys.Identity, blocker testkit.Session)
		call  func(b *bench, who keys.Identity) error
	}{
		"opens": {
			func(t *testing.T, _ *bench, family keys.Identity, blocker testkit.Session) {
				t.Helper()
				testkit.Exec(t, blocker, "SELECT FROM attempt_counters WHERE family_id = $1 FOR UPDATE", family.FamilyID)
			},
			func(b *bench, who keys.Identity) error {
				_, err := b.Open(context.Background(), who, OpenRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1})
				return err
			},
		},
		"history": {
			// A view with the table's name, before it in the path of the pool, waits for a lock at each row of the family.
			func(t *testing.T, b *bench, family keys.Identity, blocker testkit.Session) {
				t.Helper()
				testkit.Exec(t, b.pool, `CREATE FUNCTION clock.blocked(family uuid) RETURNS boolean LANGUAGE plpgsql AS $$
					BEGIN
						IF family = '`+family.FamilyID.String()+`' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;
						RETURN true;
					END $$`)
				testkit.Exec(t, b.pool, `CREATE VIEW clock.attempt_counters AS
					SELECT family_id, exam_key, learner, total FROM public.attempt_counters WHERE clock.blocked(family_id)`)
				testkit.Exec(t, blocker, "SELECT pg_advisory_xact_lock(1)")
			},
			func(b *bench, who keys.Identity) error {
				_, err := b.History(context.Background(), who, HistoryRequest{ExamKey: testExam, Limit: 1})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.bulkhead = postgres.NewBulkhead(nil, b.pool, 0)
			b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
			greedy, modest := b.someone(t), b.someone(t)
			b.open(t, greedy, "")
			b.open(t, modest, "")
			blocker := testkit.Begin(t, testkit.Open(t, b.pool.Config().ConnString()))
			c.block(t, b, greedy, blocker)
			papers := &countingShelf{shelf: b.shelf}
			b.papers = papers
			var begun atomic.Int64
			var busy errgroup.Group
			for range calls {
				busy.Go(func() error {
					begun.Add(1)
					return c.call(b, greedy)
				})
			}
			testkit.Eventually(t, "all calls of the busy family have begun", func() bool {
				return begun.Load() == calls && (name != "opens" || papers.opening.Load() == calls)
			})
			// The observer has a pool of its own: this one can be full.
			observer := testkit.Open(t, b.pool.Config().ConnString())
			testkit.Eventually(t, "one of them is blocked", func() bool {
				return testkit.Get[int](t, observer, `SELECT count(*)::int FROM pg_locks l JOIN pg_stat_activity a USING (pid)
					WHERE NOT l.granted AND a.datname = current_database()`) > 0
			})
			for range others {
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
				history, err := b.History(ctx, modest, HistoryRequest{ExamKey: testExam, Limit: 1})
				cancel()
				if err != nil || history.Total != 1 {
					t.Errorf("the other family's history: %+v, %v", history, err)
					break
				}
			}
			testkit.Release(t, blocker)
			check.NoError(t, busy.Wait())
		})
	}
}
