package delivery

import (
	"context"
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
	for _, s := range batchStatements(t.Context(), endpoint.ID, batch) {
		tx := testkit.Begin(t, b.pool)
		before := testkit.RowsRead(t, tx, "webhook_deliveries")
		got, err := s.run(webhooksdb.New(tx))
		if err != nil || got != batch {
			t.Errorf("%s: %d rows and %v, want %d", s.name, got, err, batch)
		}
		if read, most := testkit.RowsRead(t, tx, "webhook_deliveries")-before, 10*batch; read == 0 || read > most {
			t.Errorf("%s read %d rows for %d, want at most %d", s.name, read, batch, most)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

// A batchStatement reads or writes a batch of rows.
type batchStatement struct {
	name string
	run  func(*webhooksdb.Queries) (rows int, err error)
}

// batchStatements are those that workers run, in an order in which each finds the rows as it wants them.
func batchStatements(ctx context.Context, endpoint uuid.UUID, batch int) []batchStatement {
	lease := uuid.New()
	var leased []webhooksdb.LeaseRow
	return []batchStatement{
		{"Lease", func(q *webhooksdb.Queries) (rows int, err error) {
			leased, err = q.Lease(ctx, webhooksdb.LeaseParams{
				Endpoints: []uuid.UUID{endpoint}, Rooms: []int32{int32(batch)}, LeaseID: lease, LeaseSeconds: 30, Skip: []uuid.UUID{},
			})
			return len(leased), err
		}},
		{"Complete", func(q *webhooksdb.Queries) (int, error) {
			arg := webhooksdb.CompleteParams{LeaseID: lease}
			for _, row := range leased {
				arg.Ids, arg.Attempts, arg.Attempted = append(arg.Ids, row.ID), append(arg.Attempts, row.Attempt), append(arg.Attempted, true)
				arg.States, arg.Statuses = append(arg.States, "pending"), append(arg.Statuses, 500)
				arg.Failures, arg.Delays, arg.Began = append(arg.Failures, "status"), append(arg.Delays, 0), append(arg.Began, time.Now())
				arg.Millis, arg.Responses = append(arg.Millis, 1), append(arg.Responses, "")
			}
			done, err := q.Complete(ctx, arg)
			return len(done), err
		}},
		{"Sweep", func(q *webhooksdb.Queries) (int, error) {
			rows, err := q.Sweep(ctx)
			return batch * len(rows), err
		}},
		{"FirstDue", func(q *webhooksdb.Queries) (int, error) {
			_, err := q.FirstDue(ctx, webhooksdb.FirstDueParams{EndpointID: endpoint, Skip: []uuid.UUID{}})
			return batch, err
		}},
	}
}
