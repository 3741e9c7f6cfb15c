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

// backlog describes the batches that are not added to key_usage yet.
type backlog struct {
	at      time.Time
	waiting int64
	skipped int64
	oldest  time.Duration // age of the oldest waiting batch; 0 for none
}

func (m *Meter) keepRollingUp(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_ = m.rollUp(ctx, m.rollUpAge) // counted; the batches are still there
	}
}

// RollUp adds the batches of all pods to key_usage, whatever their age. If another pod is doing so, it returns at once.
// After an error the rest stays in key_usage_batches.
func (m *Meter) RollUp(ctx context.Context) error { return m.rollUp(ctx, 0) }

// rollUp does nothing while the oldest batch is younger than age.
func (m *Meter) rollUp(ctx context.Context, age time.Duration) error {
	m.rolling.Lock()
	defer m.rolling.Unlock()
	for {
		found, err := m.measureBacklog(ctx)
		if err == nil && (found.waiting == 0 || found.oldest < age) {
			return nil
		}
		var added int64
		if err == nil {
			added, err = m.addBatches(ctx)
		}
		if err != nil || added == 0 { // 0: another pod rolls up
			m.countFailure(ctx, err)
			return err
		}
	}
}

// countFailure leaves out failures because the caller's time is over, as at the end of the process.
func (m *Meter) countFailure(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		m.metrics.rollUpFailures.Inc()
	}
}

func (m *Meter) measureBacklog(ctx context.Context) (*backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	row, err := m.queries.UsageBacklog(ctx)
	if err != nil {
		return nil, fmt.Errorf("measure backlog of usage: %w", err)
	}
	found := &backlog{
		at: m.now(), waiting: row.Waiting, skipped: row.Skipped, oldest: time.Duration(row.OldestUs) * time.Microsecond,
	}
	m.backlog.Store(found)
	return found, nil
}

// addBatches adds up to rollUpBatches. If PostgreSQL refuses them together, or needs too long, it adds them one by one.
func (m *Meter) addBatches(ctx context.Context) (added int64, err error) {
	added, together := m.addTogether(ctx, rollUpBatches)
	if together == nil || ctx.Err() != nil || !isRefused(together) {
		return added, together
	}
	for range rollUpBatches {
		one, err := m.addTogether(ctx, 1)
		if err != nil {
			return added, err
		}
		if one == 0 {
			break
		}
		added += one
	}
	m.countFailure(ctx, together)
	return added, nil
}

// addTogether adds the oldest batches in one transaction, and returns their number: 0 if there is none, or if another pod
// rolls up. A single batch that is bad is skipped instead, and counts.
func (m *Meter) addTogether(ctx context.Context, most int32) (added int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
		queries := usagedb.New(tx)
		if locked, err := queries.LockRollUp(ctx); err != nil || !locked {
			return err
		}
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
			added, err = usagedb.New(savepoint).RollUpUsage(ctx, most)
			return err
		})
		if most == 1 && isBadData(err) {
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

// isRefused reports whether fewer batches may succeed: PostgreSQL answered with an error, or the time of the transaction
// ran out. A broken connection is neither.
func isRefused(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) || errors.Is(err, context.DeadlineExceeded)
}

// isBadData reports whether PostgreSQL rejected the data of a statement: a value out of range (class 22), a constraint
// (class 23) or a damaged row (XX001). After other errors the batch is tried again.
func isBadData(err error) bool {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		return false
	}
	return strings.HasPrefix(refusal.Code, "22") || strings.HasPrefix(refusal.Code, "23") || refusal.Code == "XX001"
}
