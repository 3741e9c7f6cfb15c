package directory

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/keysdb"
)

// pruneMost is the maximum number of changes that one statement deletes.
const pruneMost = 10_000

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

// prune deletes old changes in portions.
func (p *pruner) prune(ctx context.Context) error {
	for {
		calling, cancel := context.WithTimeout(ctx, p.call)
		deleted, err := keysdb.New(p.pool).PruneKeyChanges(calling, pruneMost)
		cancel()
		if err != nil {
			return fmt.Errorf("prune changes: %w", err)
		}
		if deleted < pruneMost {
			return nil
		}
	}
}
