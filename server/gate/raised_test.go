package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestADeniedKeyWithTokensAgainLosesNoRequest: a key of a slow tier is denied; then its tier is raised, or Redis loses
// the bucket.
func TestADeniedKeyWithTokensAgainLosesNoRequest(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*testing.T, *env, keys.CreatedKey){
		"its tier is raised": func(t *testing.T, e *env, key keys.CreatedKey) {
			t.Helper()
			check.NoError(t, e.store.SetTier(t.Context(), key.Prefix, "many"))
		},
		"Redis comes back empty": func(t *testing.T, e *env, _ keys.CreatedKey) {
			t.Helper()
			check.NoError(t, e.rdb.FlushDB(t.Context()).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := testkit.StartRedis(t)
			var passed atomic.Int64
			start := time.Now()
			e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:", Gate: gate.Config{
				Now: func() time.Time { return start.Add(time.Duration(passed.Load())) },
			}})
			e.tier(t, keys.TierSpec{Name: "few", Requests: 20, Period: time.Hour})
			e.tier(t, keys.TierSpec{Name: "many", Requests: 1_000_000, Period: time.Second})
			deny := func() []byte {
				key := e.create(t, "few")
				for i := range 20 {
					if !allowed(e.gate, key) {
						t.Fatalf("request %d is denied", i)
					}
				}
				if allowed(e.gate, key) {
					t.Fatal("more than 20 requests are allowed")
				}
				again(t, e, key)
				return bearer(key.Key)
			}

			header := deny()
			passed.Add(int64(time.Minute))
			var group sync.WaitGroup
			for i := range 10 {
				group.Go(func() {
					expectOutcome(t, e.gate.Check(t.Context(), header, client), gate.Allowed, "request %d of those a minute later", i)
				})
			}
			group.Wait()

			header = deny()
			passed.Add(int64(600 * time.Millisecond))
			for i := range 10 { // all at the same instant, but each after the answer to the one before
				expectOutcome(t, e.gate.Check(t.Context(), header, client), gate.Allowed, "request %d of those 600 ms later", i)
			}
		})
	}
}
