package gatetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
)

// slowdown is how many times slower than the machine's a Clock runs. A lease then lasts longer than [testkit.Patience].
const slowdown = 100

// Clock is the clock of all pods and authors of an installation. It runs at a hundredth of the machine's speed, so that a busy
// machine does not look like a silent PostgreSQL. A test moves it.
type Clock struct {
	start  time.Time
	passed atomic.Int64
}

// NewClock returns a clock that shows the machine's time.
func NewClock() *Clock { return &Clock{start: time.Now()} }

// Read reads the clock. It is a [directory.Clock].
func (c *Clock) Read() directory.Reading {
	passed := time.Since(c.start)/slowdown + time.Duration(c.passed.Load())
	return directory.Reading{Monotonic: passed, Wall: c.start.Add(passed).Round(0)}
}

// Pass moves the clock by d at once. A lease ends unless its renewal begins afterwards.
func (c *Clock) Pass(d time.Duration) { c.passed.Add(int64(d)) }

// PassWhile moves the clock while do runs, so that an author need not wait for a silent pod. It moves by a quarter of a lease at a
// time. Then it waits until so many healthy pods of the database have renewed their leases: they lose none.
func (c *Clock) PassWhile(t testing.TB, pool *pgxpool.Pool, healthy int, do func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var passing sync.WaitGroup
	defer passing.Wait()
	defer cancel()
	passing.Go(func() {
		for ctx.Err() == nil {
			c.Pass(directory.Production().Lease / 4)
			if err := awaitRenewals(ctx, pool, healthy); err != nil && ctx.Err() == nil {
				t.Errorf("the time stands still: %v", err)
				return
			}
		}
	})
	do()
}

// awaitRenewals makes the pods renew, and waits until enough of them have begun and ended a renewal.
func awaitRenewals(ctx context.Context, pool *pgxpool.Pool, healthy int) error {
	ctx, cancel := context.WithTimeout(ctx, testkit.Patience)
	defer cancel()
	before, err := renewals(ctx, pool)
	if err != nil {
		return err
	}
	return testkit.Await(ctx, "the healthy pods renew their leases", func(ctx context.Context) error {
		if _, err := pool.Exec(ctx, "NOTIFY examprep_keys"); err != nil {
			return err
		}
		now, err := renewals(ctx, pool)
		if err != nil {
			return err
		}
		renewed := 0
		for id, first := range before {
			if now[id] >= first+2 { // the first of two can have begun before
				renewed++
			}
		}
		if renewed < healthy {
			return fmt.Errorf("%d of %d have", renewed, healthy)
		}
		return nil
	})
}

// renewals returns the number of renewals of each pod.
func renewals(ctx context.Context, pool *pgxpool.Pool) (map[uuid.UUID]int64, error) {
	rows, _ := pool.Query(ctx, "SELECT id, renewals FROM api_pods") // ForEachRow returns the query's error
	counts := map[uuid.UUID]int64{}
	var id uuid.UUID
	var count int64
	_, err := pgx.ForEachRow(rows, []any{&id, &count}, func() error { counts[id] = count; return nil })
	return counts, err
}

// Timings returns production's timings, but without limits in which a busy machine must answer.
func Timings() directory.Timings {
	timings := directory.Production()
	timings.Call, timings.Limit = testkit.Patience, 1000*timings.Wait
	return timings
}

// NewStore returns a store of keys whose changes wait for pods on clock. nil means production's clock and timings.
func NewStore(pool *pgxpool.Pool, clock *Clock) *keys.Store {
	cfg := directory.AuthorConfig{}
	if clock != nil {
		cfg = directory.AuthorConfig{Clock: clock.Read, Timings: Timings()}
	}
	return keys.NewStore(pool, directory.NewAuthor(pool, cfg))
}
