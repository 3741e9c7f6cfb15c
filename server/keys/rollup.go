package keys

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/keysdb"
)

const (
	// rollUpBatches bounds what one statement adds to the usage: the use of 65,536 keys. Where that is too much for the
	// database a share is asked for less ([Meter.learn]).
	rollUpBatches = 32
	// lastRollUpBatches does for a process that is about to end: whatever fits into the time that is left is done by itself,
	// and stays done.
	lastRollUpBatches = 1
	// lookValid is how long what a look found is told.
	lookValid = time.Minute
	// touchRows bounds one statement that writes on keys' own rows.
	touchRows = 1000
	// maxTouches bounds the last uses that wait while they cannot be written: those that one statement found have room.
	maxTouches = rollUpBatches * batchKeys
)

// look is what was found by a look for usage to roll up.
type look struct {
	at     time.Time
	oldest time.Duration // how long the oldest batch had waited; 0 for none
}

// plannedAnew has the database plan each statement whenever it is asked: a plan that was made while there was little usage,
// and kept, would read all of it for each key.
type plannedAnew struct{ pool *pgxpool.Pool }

// Exec is keysdb.DBTX's.
func (p plannedAnew) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.pool.Exec(ctx, sql, anew(args)...)
}

// Query is keysdb.DBTX's.
func (p plannedAnew) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.pool.Query(ctx, sql, anew(args)...)
}

// QueryRow is keysdb.DBTX's.
func (p plannedAnew) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return p.pool.QueryRow(ctx, sql, anew(args)...)
}

// anew needs a second way to the server and back, and no cache: somebody's database URL may switch those off.
func anew(args []any) []any { return slices.Concat([]any{pgx.QueryExecModeDescribeExec}, args) }

// keepRollingUp rolls up one share after the other as they become due, at an even pace.
func (m *Meter) keepRollingUp(ctx context.Context) {
	ticker := time.NewTicker(rollUpPace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, _, _ = m.rollUpNext(ctx, m.rollUpAge, rollUpBatches) // what failed is due still
	}
}

// RollUp adds to the usage what pods have written, however old it is. What another pod is adding just then is left to it.
// After an error the rest stays where it is.
func (m *Meter) RollUp(ctx context.Context) error { return m.rollUpAll(ctx, rollUpBatches) }

// rollUpAll takes so many batches in one statement at most.
func (m *Meter) rollUpAll(ctx context.Context, most int32) error {
	for others := 0; others < usageShares; {
		due, batches, err := m.rollUpNext(ctx, 0, most)
		if !due || err != nil {
			return err
		}
		others++
		if batches > 0 {
			others = 0
		}
	}
	return nil
}

// rollUpNext rolls up the next share that is due, if there is one, and notes last uses. Neither waits for the other to go
// well.
func (m *Meter) rollUpNext(ctx context.Context, age time.Duration, most int32) (due bool, batches int64, err error) {
	m.rolling.Lock()
	defer m.rolling.Unlock()
	if due, err = m.nextShare(ctx, age); due {
		batches, err = m.rollUpShare(ctx, most)
	}
	m.countFailure(ctx, err)
	m.countFailure(ctx, m.touch(ctx))
	return due, batches, err
}

// countFailure leaves out what failed because the caller's time is over, as it is when the process ends.
func (m *Meter) countFailure(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		m.rollUpFailures.Inc()
	}
}

// nextShare goes on to the next share of which something is as old as age and its place among the shares say. The one after
// the last comes first, so that one which cannot be written does not hold up the others.
func (m *Meter) nextShare(ctx context.Context, age time.Duration) (due bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	asked := keysdb.DueUsageParams{AgeUs: age.Microseconds(), Shares: usageShares, Last: m.share}
	found, err := m.queries.DueUsage(ctx, asked)
	if err != nil {
		return false, fmt.Errorf("look for usage of keys to roll up: %w", err)
	}
	m.noteOldest(found.OldestUs)
	m.share = found.Share
	return found.Due, nil
}

// noteOldest keeps how old the oldest batch is, in microseconds; 0 for none.
func (m *Meter) noteOldest(age int64) {
	m.looked.Store(&look{at: m.now(), oldest: time.Duration(age) * time.Microsecond})
}

// oldestAge is that of the oldest batch, in seconds; 0 where none waited when this process looked. It is not a number once
// that look is out of date: a pod that does not reach the database does not know what others have rolled up since.
func (m *Meter) oldestAge() float64 {
	last := m.looked.Load()
	if last == nil || m.now().Sub(last.at) > lookValid {
		return math.NaN()
	}
	return last.oldest.Seconds()
}

func (m *Meter) rollUpShare(ctx context.Context, most int32) (batches int64, err error) {
	if learned, ok := m.most[m.share]; ok {
		most = min(most, learned)
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rolled, err := m.rollUps.RollUpUsage(ctx, keysdb.RollUpUsageParams{Share: m.share, Most: most})
	m.learn(most, rolled.Batches, err)
	if err != nil {
		return 0, fmt.Errorf("roll up usage of keys: %w", err)
	}
	m.noteUses(rolled.Unnoted, rolled.Used)
	return rolled.Batches, nil
}

// learn has the share asked for fewer batches after an error, which may be that so many took too long, and for more again
// once it gave as many as it was asked for: what the database is too slow for at once it does bit by bit, and a backlog
// shrinks however long it has become.
func (m *Meter) learn(asked int32, batches int64, err error) {
	switch {
	case err != nil:
		m.most[m.share] = max(1, asked/4)
	case batches >= int64(asked):
		m.most[m.share] = min(2*asked, rollUpBatches)
	}
}

// noteUses keeps the first uses of a day until they are written on keys' own rows. Where too many wait one is left out, and
// the key's own row is a day behind.
func (m *Meter) noteUses(ids []uuid.UUID, used []time.Time) {
	for i, id := range ids {
		if before, waits := m.used[id]; used[i].After(before) && (waits || len(m.used) < maxTouches) {
			m.used[id] = used[i]
		}
	}
}

// touch writes on keys' own rows that they were used, once a day. It comes after the usage, which is billed, and has time of
// its own.
func (m *Meter) touch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	for ids := range slices.Chunk(slices.SortedFunc(maps.Keys(m.used), compareIDs), touchRows) {
		passed, err := m.touchKeys(ctx, ids)
		if err != nil {
			return fmt.Errorf("note last use of keys: %w", err)
		}
		for _, id := range ids {
			if !slices.Contains(passed, id) {
				delete(m.used, id)
			}
		}
	}
	return nil
}

// touchKeys returns the keys that were being changed just then.
func (m *Meter) touchKeys(ctx context.Context, ids []uuid.UUID) (passed []uuid.UUID, err error) {
	arg := keysdb.TouchKeysParams{Ids: ids}
	for _, id := range ids {
		arg.Used = append(arg.Used, m.used[id])
	}
	return m.queries.TouchKeys(ctx, arg)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
