package directory

import (
	"context"
	"fmt"

	"examprep.dev/server/postgres/keysdb"
)

// pruneMost is the maximum number of changes that one statement deletes.
const pruneMost = 10_000

// startPruning removes keys that had expired at the last lease, since no change removes them, and starts the deletion of old
// changes.
func (d *Directory) startPruning() {
	if l := d.lease.Load(); l != nil { // its time is PostgreSQL's own: a clock that steps removes no key
		d.contents.Load().keys.removeExpired(l.now)
	}
	select {
	case d.pruning <- struct{}{}:
	default:
	}
}

// prune deletes old changes whenever that is started, until ctx ends. It uses the pool, so neither a slow deletion nor a failed one
// delays a renewal.
func (d *Directory) prune(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.pruning:
		}
		if err := d.pruneAll(ctx); err != nil && ctx.Err() == nil {
			d.cfg.Logger.Warn("old changes of keys were not deleted; the next try is in five minutes", "error", err)
		}
	}
}

// pruneAll deletes old changes in portions.
func (d *Directory) pruneAll(ctx context.Context) error {
	for {
		calling, cancel := context.WithTimeout(ctx, d.cfg.Timings.Call)
		deleted, err := keysdb.New(d.pool).PruneKeyChanges(calling, pruneMost)
		cancel()
		if err != nil {
			return fmt.Errorf("prune changes: %w", err)
		}
		if deleted < pruneMost {
			return nil
		}
	}
}
