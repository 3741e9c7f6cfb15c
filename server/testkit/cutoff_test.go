package testkit_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestCutOffLetsNobodyThrough asks from many goroutines, half of them by connections of their own that start just then.
func TestCutOffLetsNobodyThrough(t *testing.T) {
	const askers, rounds = 8, 5
	pool := testkit.Database(t)
	open := func(ctx context.Context) error {
		conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
		if err != nil {
			return err
		}
		return errors.Join(conn.Ping(ctx), conn.Close(ctx))
	}
	for range rounds {
		ctx, stop := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for n := range askers {
			asking.Go(func() {
				ask := pool.Ping
				if n%2 == 0 {
					ask = open
				}
				for ctx.Err() == nil {
					_ = ask(ctx) // the result depends on the moment
				}
			})
		}
		restore := testkit.CutOff(t, pool)
		stop()
		for range askers {
			if pool.Ping(t.Context()) == nil || open(t.Context()) == nil {
				t.Error("the database answers while it is cut off")
			}
		}
		restore()
		asking.Wait()
		for range askers {
			asking.Go(func() {
				check.Succeeds(t, pool.Ping(t.Context()), "after it")
			})
		}
		asking.Wait()
	}
}
