package usage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/usagedb"
)

const (
	// rollUpBatches bounds the batches that one transaction adds: 65,536 keys.
	rollUpBatches = 32
	// mostTried keys that cannot be added end a roll-up: then the reason is not one row.
	mostTried = 32
	// lookInterval is the time between two measurements of the backlog.
	lookInterval = 5 * time.Second
)

// RollUp adds the batches of all pods to key_usage, whatever their age. If another pod is doing so, it returns at once.
// After an error the rest stays in key_usage_batches.
func (m *Meter) RollUp(ctx context.Context) error { return m.rollUp(ctx, 0) }

// rollUp does nothing while the oldest batch is younger than age. If batches cannot be added together, it adds them one by
// one, and divides those that cannot be added alone: a key whose row cannot be written costs no other. Such a key's counts stay, and
// the next roll-up tries them after all others. It counts failures, but for those because the caller's time is over, as at the end of
// the process.
func (m *Meter) rollUp(ctx context.Context, age time.Duration) error {
	r := rollUp{Meter: m, age: age}
	for total := int64(0); ; {
		added, err := r.addBatches(ctx, rollUpBatches)
		if err != nil && ctx.Err() == nil {
			m.rollUpFailures.Inc()
		}
		for err != nil && added < rollUpBatches && r.tried < mostTried {
			if one, failure := r.addBatches(ctx, 1); failure != nil || one == 0 {
				break
			}
			added++
		}
		if total += added; added > 0 && r.tried < mostTried {
			continue
		}
		if total > 0 {
			err = errors.Join(err, m.forgetWriters(ctx))
		}
		return errors.Join(err, r.refused)
	}
}

// rollUp is one call of [Meter.RollUp].
type rollUp struct {
	*Meter

	age time.Duration
	// until is PostgreSQL's time at the beginning. A batch that is tried later is not tried again.
	until time.Time
	// tried is how many batches of one key could not be added, and refused why the last of them could not.
	tried   int
	refused error
}

// addBatches measures the backlog, adds the oldest batches in one transaction, and returns their number: 0 if the oldest
// is too young, or if another pod rolls up. A single batch that cannot be added is divided or marked instead, and counts.
func (r *rollUp) addBatches(ctx context.Context, limit int32) (added int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.FlushTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		queries := usagedb.New(tx)
		found, err := queries.UsageBacklog(ctx)
		if err != nil {
			return err
		}
		r.backlog.Store(&backlog{UsageBacklogRow: found, at: r.cfg.Now()})
		if r.until.IsZero() {
			r.until = found.At
		}
		if found.DueSeconds < r.age.Seconds() {
			return nil
		}
		lockTimeout := strconv.FormatInt(r.cfg.LockTimeout.Milliseconds(), 10)
		if locked, err := queries.LockRollUp(ctx, lockTimeout); err != nil || !locked {
			return err
		}
		err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
			added, err = usagedb.New(savepoint).RollUpUsage(ctx, usagedb.RollUpUsageParams{Until: r.until, Most: limit})
			return err
		})
		if limit == 1 && postgres.Divides(err) {
			added = 1
			return r.divide(ctx, queries, err)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("roll up usage of keys: %w", err)
	}
	return added, nil
}

// divide divides the oldest batch, which cannot be added. A batch of one key stays as it is, and is skipped from now on if PostgreSQL
// rejected its data.
func (r *rollUp) divide(ctx context.Context, queries *usagedb.Queries, cause error) error {
	skip := isBadData(cause)
	halves, err := queries.DivideOldestBatch(ctx, usagedb.DivideOldestBatchParams{Until: r.until, Skip: skip})
	if err == nil && halves == 0 && !skip {
		r.tried++
		r.refused = cause
	}
	return err
}

// isBadData reports whether PostgreSQL rejected the data of a statement: a value out of range (class 22), a constraint
// (class 23) or a damaged row (XX001). After other errors the batch is tried again.
func isBadData(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(refusal.Code, "22") || strings.HasPrefix(refusal.Code, "23") || refusal.Code == "XX001")
}

// forgetWriters deletes the rows of writers that ended long ago. A row that PostgreSQL does not let it delete, or that another
// transaction locks, costs no other.
func (m *Meter) forgetWriters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.FlushTimeout)
	defer cancel()
	queries := usagedb.New(m.pool)
	ended, err := queries.EndedWriters(ctx)
	if err != nil {
		return fmt.Errorf("find writers of usage that ended: %w", err)
	}
	var refused error
	err = postgres.Divide(ended, func(ids []uuid.UUID) error { return queries.DropWriters(ctx, ids) }, func(id uuid.UUID, err error) {
		refused = fmt.Errorf("delete writer %s of usage: %w", id, err)
	})
	return errors.Join(err, refused)
}
