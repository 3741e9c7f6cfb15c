package directory

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/keysdb"
)

// pruneMost is the maximum number of changes that one statement deletes.
const pruneMost = 1000

// pruner deletes old changes. It uses the pool, so neither a slow deletion nor a failed one delays a renewal.
type pruner struct {
	pool   *pgxpool.Pool
	call   time.Duration // bounds a statement
	logger *slog.Logger
	due    chan struct{}
}

// start starts a deletion, unless one is due already.
func (p *pruner) start() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// run deletes old changes whenever that is started, until ctx ends.
func (p *pruner) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.due:
		}
		if err := p.prune(ctx); err != nil && ctx.Err() == nil {
			p.logger.Warn("old changes of keys were not deleted; the next try is in five minutes", "error", err)
		}
	}
}

// prune deletes old changes in portions, and rows of pods that were lost long ago. A row that PostgreSQL does not let it delete, or that
// another transaction locks, costs no other. The first refusal is returned at the end.
func (p *pruner) prune(ctx context.Context) error {
	queries := keysdb.New(p.pool)
	var refused error
	refuse := func(err error) {
		if refused == nil {
			refused = err
		}
	}
	for after := int64(0); ; {
		var numbers []int64
		err := p.bounded(ctx, func(ctx context.Context) (err error) {
			numbers, err = queries.OldKeyChanges(ctx, keysdb.OldKeyChangesParams{After: after, Most: pruneMost})
			return err
		})
		if err == nil {
			err = postgres.Divide(numbers, func(numbers []int64) error {
				return p.bounded(ctx, func(ctx context.Context) error { return queries.DropKeyChanges(ctx, numbers) })
			}, func(number int64, err error) { refuse(fmt.Errorf("delete change %d: %w", number, err)) })
		}
		if err != nil {
			return fmt.Errorf("prune changes: %w", err)
		}
		if len(numbers) < pruneMost {
			break
		}
		after = numbers[len(numbers)-1]
	}
	var pods []uuid.UUID
	err := p.bounded(ctx, func(ctx context.Context) (err error) {
		pods, err = queries.LongLostPods(ctx)
		return err
	})
	if err == nil {
		err = postgres.Divide(pods, func(ids []uuid.UUID) error {
			return p.bounded(ctx, func(ctx context.Context) error { return queries.DropLostPods(ctx, ids) })
		}, func(id uuid.UUID, err error) { refuse(fmt.Errorf("delete pod %s: %w", id, err)) })
	}
	if err != nil {
		return fmt.Errorf("prune pods: %w", err)
	}
	return refused
}

// bounded runs a statement within its time-out.
func (p *pruner) bounded(ctx context.Context, statement func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.call)
	defer cancel()
	return statement(ctx)
}
