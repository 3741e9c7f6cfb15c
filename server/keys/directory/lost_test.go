package directory_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestALostPodHasNoLeaseFromAnOlderSnapshot: the pod's first renewal after it was lost has begun before a change, and commits
// after the author has its answer. The pod must know the change before it answers. It renews only when it is notified.
func TestALostPodHasNoLeaseFromAnOlderSnapshot(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	clock, timings := gatetest.NewClock(), gatetest.Timings()
	timings.Renew = testkit.Patience
	d, _ := start(t, pool, directory.Config{Board: directory.NewRedisBoard(rdb, prefix), Clock: clock.Read, Timings: timings})
	waiting := func(what, statement, event string) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			return testkit.Get[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND wait_event = $2 AND query LIKE '%' || $1 || '%'`, statement, event) > 0
		})
	}
	marks, holds := testkit.Begin(t, pool, "UPDATE api_pods SET lost_at = now()"), testkit.Begin(t, pool)
	held := make(chan error, 1)
	go func() {
		_, err := holds.Exec(t.Context(), "SELECT 'hold' FROM api_pods FOR UPDATE")
		held <- err
	}()
	waiting("the hold waits for the mark", "'hold'", "transactionid")
	clock.Pass(3 * time.Second) // its lease ends; that of the renewal begins after this
	exec(t, pool, "NOTIFY examprep_keys")
	waiting("a renewal waits for the hold", "RenewLease", "tuple")
	check.NoError(t, marks.Commit(t.Context()))
	check.NoError(t, testkit.Receive(t, held, "the row is held"))
	key := create(t, pool, "acme")
	confirm(t, pool, keys.Addition) // does not wait for a lost pod
	seen := make(chan directory.Status, 1)
	go func() {
		status := directory.Unavailable
		for status == directory.Unavailable && t.Context().Err() == nil {
			_, status = d.Find(t.Context(), hashOf(key))
		}
		seen <- status
	}()
	check.NoError(t, holds.Commit(t.Context()))
	status := testkit.Receive(t, seen, "the pod has a lease again")
	check.Equal(t, status, directory.Live, "status of a new key after its creation was confirmed")
}

// TestAKeyIsNeverUnknownWhileItsTierIsNew gives a key tiers that no key had before.
func TestAKeyIsNeverUnknownWhileItsTierIsNew(t *testing.T) {
	pool := testkit.Database(t)
	d, _ := start(t, pool, directory.Config{})
	key := create(t, pool, "acme")
	confirm(t, pool, keys.Addition)
	stop := make(chan struct{})
	var missing error
	var asking sync.WaitGroup
	asking.Go(func() {
		for asked := 0; ; asked++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, status := d.Find(t.Context(), hashOf(key)); status != directory.Live {
				missing = errors.Join(missing, fmt.Errorf("request %d: status %d", asked, status))
				return
			}
		}
	})
	for i := range 20 {
		tier := fmt.Sprintf("tier-%d", i)
		check.NoError(t, store(pool).ApplyTier(t.Context(), keys.TierSpec{Name: tier, Requests: 10, Period: time.Second}))
		check.NoError(t, store(pool).SetTier(t.Context(), key.Prefix, tier))
		confirm(t, pool, keys.Restriction)
		if found := wantStatus(t, d, key, directory.Live); found.Tier == nil || found.Tier.Requests != 10 {
			t.Errorf("%s: got %+v", tier, found.Tier)
		}
	}
	close(stop)
	asking.Wait()
	if missing != nil {
		t.Error(missing)
	}
}
