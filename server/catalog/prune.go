package catalog

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/catalogdb"
)

// pruneWait is how long pruning waits for a row that another transaction has locked.
const pruneWait = "200ms"

// prune drops what the history limit leaves behind: revisions first, then the papers that nothing refers to any more. The limit counts
// rows, because numbers have gaps, for example after a restored backup. A pinned revision stays as long as its pin is published. A row that
// PostgreSQL does not let it drop, or that another transaction locks, stays until the exam's next publication and keeps nothing from
// being published.
func (p *Publisher) prune(ctx context.Context, tx pgx.Tx, examKey string, revision int64, limit int) error {
	if limit <= 0 || revision <= int64(limit) { // a published revision has the highest number, so there are no more rows than that
		return nil
	}
	q := catalogdb.New(tx)
	if err := q.BoundLocks(ctx, pruneWait); err != nil {
		return fmt.Errorf("bound the waits of pruning: %w", err)
	}
	old := catalogdb.OldRevisionsParams{
		Published: revision, ExamKey: examKey, Keep: int32(min(limit, math.MaxInt32)), Before: p.now().Add(-supersededFor),
	}
	err := dropEach(ctx, tx, func() ([]int64, error) { return q.OldRevisions(ctx, old) },
		func(q *catalogdb.Queries, revisions []int64) error {
			return q.DropRevisions(ctx, catalogdb.DropRevisionsParams{ExamKey: examKey, Revisions: revisions})
		})
	if err != nil {
		return fmt.Errorf("prune revisions: %w", err)
	}
	err = dropEach(ctx, tx, func() ([][]byte, error) { return q.UnusedPapers(ctx, examKey) },
		func(q *catalogdb.Queries, digests [][]byte) error {
			return q.DropPapers(ctx, catalogdb.DropPapersParams{ExamKey: examKey, Digests: digests})
		})
	if err != nil {
		return fmt.Errorf("prune papers: %w", err)
	}
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout TO DEFAULT"); err != nil { // the commit can wait for others
		return fmt.Errorf("end the bound on waits: %w", err)
	}
	return nil
}

// dropEach drops rows in a transaction. PostgreSQL logs a row that it refuses to drop.
func dropEach[T any](ctx context.Context, tx pgx.Tx, find func() ([]T, error), drop func(*catalogdb.Queries, []T) error) error {
	rows, err := find()
	if err != nil {
		return err
	}
	return postgres.Divide(rows, func(rows []T) error {
		return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return drop(catalogdb.New(savepoint), rows) })
	}, func(T, error) {})
}
