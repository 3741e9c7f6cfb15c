package webhooks

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
)

// A table whose statistics were taken when nothing was pending, and in which very much has become pending since: that is
// what a queue's statistics are worth, and when a plan that reads all that is pending hurts.
func TestABatchReadsNoMoreThanItsRowsHoweverManyArePending(t *testing.T) {
	t.Parallel()
	const rows, batch = 5000, 10
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example")
	b.fill(t, endpoint.ID, rows)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET state = 'delivered'")
	testkit.Exec(t, b.pool, "ANALYZE")
	b.fill(t, endpoint.ID, rows)
	pending := testkit.Get[[]uuid.UUID](t, b.pool, `SELECT array_agg(id) FROM (
		SELECT id FROM webhook_deliveries WHERE state = 'pending' ORDER BY random() LIMIT $1) p`, batch)
	for _, s := range batchStatements(t.Context(), pending, endpoint.CreatedAt) {
		tx := testkit.Begin(t, b.pool)
		before := testkit.RowsRead(t, tx, "webhook_deliveries")
		got, err := s.run(webhooksdb.New(tx))
		if err != nil || got != batch {
			t.Errorf("%s: %d rows and %v, want %d", s.name, got, err, batch)
		}
		if read, most := testkit.RowsRead(t, tx, "webhook_deliveries")-before, 10*batch; read < batch || read > most {
			t.Errorf("%s read %d rows for %d, want at most %d", s.name, read, batch, most)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

// A batchStatement is one that is given ids, or a number of them.
type batchStatement struct {
	name string
	run  func(*webhooksdb.Queries) (rows int, err error)
}

// batchStatements are those that workers run, in an order in which each finds the rows as it wants them.
func batchStatements(ctx context.Context, pending []uuid.UUID, began time.Time) []batchStatement {
	lease, batch := uuid.New(), len(pending)
	return []batchStatement{
		{"ClaimDue", func(q *webhooksdb.Queries) (int, error) {
			claimed, err := q.ClaimDue(ctx, webhooksdb.ClaimDueParams{HoldSeconds: 60, Batch: int32(batch)})
			return len(claimed), err
		}},
		{"Lease", func(q *webhooksdb.Queries) (int, error) {
			leased, err := q.Lease(ctx, webhooksdb.LeaseParams{
				Ids: pending, LeaseID: lease, TermSeconds: 30, MaxAttempts: maxAttempts, MaxLost: maxLost,
			})
			return len(leased), err
		}},
		{"Complete", func(q *webhooksdb.Queries) (int, error) {
			arg := webhooksdb.CompleteParams{LeaseID: lease, Ids: pending, MaxAttempts: maxAttempts}
			for range pending {
				arg.Attempts, arg.States, arg.Statuses = append(arg.Attempts, 1), append(arg.States, "pending"), append(arg.Statuses, 500)
				arg.Failures, arg.Delays, arg.Began = append(arg.Failures, "worker_lost"), append(arg.Delays, 0), append(arg.Began, began)
				arg.Millis, arg.Responses = append(arg.Millis, 1), append(arg.Responses, "")
			}
			done, err := q.Complete(ctx, arg)
			return len(done), err
		}},
		{"Unclaim", func(q *webhooksdb.Queries) (int, error) {
			return batch, q.Unclaim(ctx, webhooksdb.UnclaimParams{Ids: pending, Delays: make([]float64, batch)})
		}},
		{"StillDue", func(q *webhooksdb.Queries) (int, error) {
			_, err := q.StillDue(ctx, pending)
			return batch, err
		}},
		{"TellLate", func(q *webhooksdb.Queries) (int, error) {
			return batch, q.TellLate(ctx, webhooksdb.TellLateParams{
				Ids: pending, Attempts: slices.Repeat([]int32{1}, batch), Statuses: make([]int32, batch), Failures: make([]string, batch),
				Began: slices.Repeat([]time.Time{began}, batch), Millis: make([]int32, batch), Responses: make([]string, batch),
				MaxAttempts: maxAttempts,
			})
		}},
		{"CancelOrphans", func(q *webhooksdb.Queries) (int, error) {
			gone, err := q.CancelOrphans(ctx, pending)
			return batch + len(gone), err
		}},
		{"FailLost", func(q *webhooksdb.Queries) (int, error) {
			failed, err := q.FailLost(ctx, webhooksdb.FailLostParams{Ids: pending, MaxLost: maxLost, MaxAttempts: maxAttempts})
			return batch + int(failed), err
		}},
	}
}
