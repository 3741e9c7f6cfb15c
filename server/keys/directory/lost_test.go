package directory_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestALostPodHasNoLeaseFromAnOlderSnapshot: the pod's first renewal after it was lost has begun before a change, and commits
// after the author has its answer. The pod must know the change before it answers.
func TestALostPodHasNoLeaseFromAnOlderSnapshot(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	d, _ := start(t, pool, directory.Config{Board: directory.NewRedisBoard(rdb, prefix)})
	waits := func(statement, event string) bool {
		return testkit.Get[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event = $2 AND query LIKE '%' || $1 || '%'`, statement, event) > 0
	}
	marks := testkit.Begin(t, pool, "UPDATE api_pods SET lost_at = now()")
	testkit.Eventually(t, "the lease is over", func() bool { return !d.Leased() })
	holds := make(chan pgx.Tx, 1)
	go func() { holds <- testkit.Begin(t, pool, "SELECT 'hold' FROM api_pods FOR UPDATE") }()
	// A renewal that waited before it is given up after 2 s; the next one waits behind it.
	testkit.Eventually(t, "the lock is next, and a renewal follows", func() bool {
		return waits("'hold'", "transactionid") && waits("RenewLease", "tuple")
	})
	check.NoError(t, marks.Commit(t.Context()))
	hold := <-holds
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
	check.NoError(t, hold.Commit(t.Context()))
	check.Equal(t, <-seen, directory.Live, "status of a new key after its creation was confirmed")
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
