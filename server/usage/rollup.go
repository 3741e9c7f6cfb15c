package usage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/postgres/usagedb"
)

const (
	// rollUpBatches bounds the batches that one transaction adds: 65,536 keys.
	rollUpBatches = 32
	// lookInterval is the time between two measurements of the backlog.
	lookInterval = 5 * time.Second
)

// RollUp adds the batches of all pods to key_usage, whatever their age. If another pod is doing so, it returns at once.
// After an error the rest stays in key_usage_batches.
func (m *Meter) RollUp(ctx context.Context) error { return m.rollUp(ctx, 0) }

// rollUp does nothing while the oldest batch is younger than age. If batches cannot be added together, it adds them one by
// one. It counts failures, but for those because the caller's time is over, as at the end of the process.
func (m *Meter) rollUp(ctx context.Context, age time.Duration) error {
	for {
		added, err := m.addBatches(ctx, age, rollUpBatches)
		if err != nil && ctx.Err() == nil {
			m.rollUpFailures.Inc()
		}
		for err != nil && added < rollUpBatches {
			if one, failure := m.addBatches(ctx, age, 1); failure != nil || one == 0 {
				break
			}
			added++
		}
		if added == 0 {
			return err
		}
	}
}

// addBatches measures the backlog, adds the oldest batches in one transaction, and returns their number: 0 if the oldest
// is too young, or if another pod rolls up. A single batch that is bad is skipped instead, and counts.
func (m *Meter) addBatches(ctx context.Context, age time.Duration, limit int32) (added int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.FlushTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
		queries := usagedb.New(tx)
		found, err := queries.UsageBacklog(ctx)
		if err != nil {
			return err
		}
		m.backlog.Store(&backlog{UsageBacklogRow: found, at: m.cfg.Now()})
		if found.OldestSeconds < age.Seconds() {
			return nil
		}
		if locked, err := queries.LockRollUp(ctx); err != nil || !locked {
			return err
		}
		err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
			added, err = usagedb.New(savepoint).RollUpUsage(ctx, limit)
			return err
		})
		if limit == 1 && isBadData(err) {
			added = 1
			return queries.SkipOldestBatch(ctx)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("roll up usage of keys: %w", err)
	}
	return added, nil
}

// isBadData reports whether PostgreSQL rejected the data of a statement: a value out of range (class 22), a constraint
// (class 23) or a damaged row (XX001). After other errors the batch is tried again.
func isBadData(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(refusal.Code, "22") || strings.HasPrefix(refusal.Code, "23") || refusal.Code == "XX001")
}
