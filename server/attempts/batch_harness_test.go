package attempts

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/testkit"
)

// recorder has the batches of a group: their calls, and the errors of their shared statements.
type recorder[Q any] struct {
	mu      sync.Mutex
	batches [][]Q
	errs    []error
	// single counts the statements for one call.
	single atomic.Int64
}

// record records the batches of a group that has run nothing yet.
func record[Q, R any](g *group[Q, R]) *recorder[Q] {
	r := &recorder[Q]{}
	many, one := g.many, g.one
	g.many = func(ctx context.Context, calls []Q) ([]R, error) {
		results, err := many(ctx, calls)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.batches, r.errs = append(r.batches, calls), append(r.errs, err)
		return results, err
	}
	g.one = func(ctx context.Context, call Q) (R, error) {
		r.single.Add(1)
		return one(ctx, call)
	}
	return r
}

// sizes returns the numbers of calls in the batches of more than one.
func (r *recorder[Q]) sizes() (sizes []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, calls := range r.batches {
		sizes = append(sizes, len(calls))
	}
	return sizes
}

// loaded waits until a group has a number of calls that wait and of batches that run.
func loaded[Q, R any](t *testing.T, g *group[Q, R], waiting, running int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d calls wait, and %d batches run", waiting, running), func() bool {
		w, r := g.batches.Load()
		return w == waiting && r == running
	})
}

// crew runs calls in the background. Its group's batches are held by locks of the test.
type crew struct {
	running  sync.WaitGroup
	answered atomic.Int64
}

func (c *crew) start(call func()) {
	c.running.Go(func() {
		call()
		c.answered.Add(1)
	})
}

// occupy starts calls one by one until each worker of a group has a batch that waits for a lock of the test.
func occupy[Q, R any](t *testing.T, g *group[Q, R], c *crew, call func(i int)) {
	t.Helper()
	for i := range batchesInFlight {
		c.start(func() { call(i) })
		loaded(t, g, 0, i+1)
	}
}

// admin returns connections for locks and checks, so that the service has its pool for itself.
func (b *bench) admin(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return testkit.Open(t, b.pool.Config().ConnString())
}

// checkCounters checks that sequence numbers are dense and that totals are exact.
func checkCounters(t *testing.T, db testkit.Session) {
	t.Helper()
	for what, query := range map[string]string{
		"numbers of a key are not dense": `SELECT count(*) FROM (SELECT key_seq,
			row_number() OVER (PARTITION BY family_id, exam_key ORDER BY key_seq) AS n FROM attempts) s WHERE key_seq <> n`,
		"numbers of a learner are not dense": `SELECT count(*) FROM (SELECT learner_seq,
			row_number() OVER (PARTITION BY family_id, exam_key, learner ORDER BY learner_seq) AS n FROM attempts WHERE learner <> '') s
			WHERE learner_seq IS DISTINCT FROM n`,
		"attempts without a learner have a learner's number": `SELECT count(*) FROM attempts WHERE learner = '' AND learner_seq IS NOT NULL`,
		"totals are not exact": `SELECT count(*) FROM attempt_counters c WHERE total <> (SELECT count(*) FROM attempts a
			WHERE a.family_id = c.family_id AND a.exam_key = c.exam_key AND c.learner IN ('', a.learner))`,
	} {
		if n := testkit.Get[int64](t, db, query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}
