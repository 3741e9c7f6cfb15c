package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestADeniedKeyThatIsGoodAgainLosesNoRequest: a key of a slow tier is denied; then its tier is raised, or Redis
// forgets what the key had used.
func TestADeniedKeyThatIsGoodAgainLosesNoRequest(t *testing.T) {
	for name, again := range map[string]func(*testing.T, *house, keys.Issued){
		"its tier is raised": func(t *testing.T, h *house, key keys.Issued) {
			t.Helper()
			check.NoError(t, h.store.SetTier(t.Context(), key.Prefix, "many"))
		},
		"Redis comes back empty": func(t *testing.T, h *house, _ keys.Issued) {
			t.Helper()
			check.NoError(t, h.rdb.FlushDB(t.Context()).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			own := testkit.StartRedis(t)
			var passed atomic.Int64
			start := time.Now()
			h := newHouseOn(t, clientOf(t, own), "p:", func(c *gate.Config) {
				c.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
			})
			h.tier(t, keys.TierSpec{Name: "few", Requests: 20, Period: time.Hour})
			h.tier(t, keys.TierSpec{Name: "many", Requests: 1_000_000, Period: time.Second})
			deny := func() []byte {
				key := h.create(t, "few")
				for i := range 20 {
					if !allowed(h.gate, key) {
						t.Fatalf("request %d is denied", i)
					}
				}
				if allowed(h.gate, key) {
					t.Fatal("20 requests are allowed")
				}
				again(t, h, key)
				return bearer(key.Key)
			}

			header := deny()
			passed.Add(int64(time.Minute))
			var group sync.WaitGroup
			for i := range 10 {
				group.Go(func() {
					if d := h.gate.Check(t.Context(), header, client); d.Outcome != gate.Allowed {
						t.Errorf("request %d of those a minute later: %+v", i, d)
					}
				})
			}
			group.Wait()

			header = deny()
			passed.Add(int64(600 * time.Millisecond))
			for i := range 10 { // all in the same instant, but each after the answer to the one before
				if d := h.gate.Check(t.Context(), header, client); d.Outcome != gate.Allowed {
					t.Errorf("request %d of those 600 ms later: %+v", i, d)
				}
			}
		})
	}
}
