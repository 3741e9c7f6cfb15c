package keys

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres/keysdb"
)

// maxTouched bounds the memory of a TouchBatch; keys used beyond it within one interval keep their older last use.
const maxTouched = 100_000

// touchTimeout bounds one flush.
const touchTimeout = 10 * time.Second

// TouchBatch gathers when keys were last used and writes it in one statement per interval, so that use costs the
// request nothing.
type TouchBatch struct {
	queries  *keysdb.Queries
	interval time.Duration
	now      func() time.Time

	mu   sync.Mutex
	used map[uuid.UUID]time.Time
}

// NewTouchBatch returns a batch that [TouchBatch.Run] flushes every interval. now is the clock; nil for time.Now.
func NewTouchBatch(pool *pgxpool.Pool, interval time.Duration, now func() time.Time) *TouchBatch {
	if now == nil {
		now = time.Now
	}
	return &TouchBatch{queries: keysdb.New(pool), interval: interval, now: now, used: map[uuid.UUID]time.Time{}}
}

// Touch notes that a key is used now. It never blocks on the database.
func (b *TouchBatch) Touch(key uuid.UUID) {
	at := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.used[key]; known || len(b.used) < maxTouched {
		b.used[key] = at
	}
}

// Run flushes until ctx ends, then once more. It always returns nil: what cannot be written is kept for the next time.
func (b *TouchBatch) Run(ctx context.Context) error {
	ticker := time.NewTicker(b.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = b.Flush(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
			_ = b.Flush(ctx)
		}
	}
}

// Flush writes what was gathered. After an error it is gathered still.
func (b *TouchBatch) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, touchTimeout)
	defer cancel()
	b.mu.Lock()
	used := b.used
	b.used = make(map[uuid.UUID]time.Time, len(used))
	b.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	// One order makes it unlikely that flushes of two pods deadlock. The plan may still take rows in another: then one
	// of them fails, keeps what it gathered, and writes it the next time.
	arg := keysdb.TouchKeysParams{Ids: slices.SortedFunc(maps.Keys(used), compareIDs)}
	for _, id := range arg.Ids {
		arg.Used = append(arg.Used, used[id])
	}
	err := b.queries.TouchKeys(ctx, arg)
	if err != nil {
		b.mu.Lock()
		for id, at := range used {
			if _, newer := b.used[id]; !newer && len(b.used) < maxTouched {
				b.used[id] = at
			}
		}
		b.mu.Unlock()
	}
	return err
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
