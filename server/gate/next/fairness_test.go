package gate_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	gate "examprep.dev/server/gate/next"
	"examprep.dev/server/gate/next/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
)

// TestAKeyFarBeyondItsLimitCostsRedisLittle: one key sends hundreds of times what its tier allows, several requests at
// once on each pod. Redis counts its calls, by its own time. The other key passes as if the first were not there.
func TestAKeyFarBeyondItsLimitCostsRedisLittle(t *testing.T) {
	for _, pods := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d pods", pods), func(t *testing.T) {
			own := testkit.StartRedis(t)
			e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:"})
			e.tier(t, keys.TierSpec{Name: "two a second", Requests: 120, Period: time.Minute, Burst: 1})
			flood, calm := e.create(t, "two a second"), e.create(t, "default")
			var gates []*gatetest.Pod
			rdb, prefix := testkit.Redis(t) // for the directories' numbers, which are not counted
			for range pods {                // their limiters do not run, so only requests call the script
				pod := gatetest.New(t, e.pool, e.rdb, gatetest.Config{
					Prefix: "p:", Directory: directory.Config{Board: directory.NewRedisBoard(rdb, prefix)},
				})
				pod.Run(t)
				gates = append(gates, pod)
			}
			e.gate.Stop()
			admin := own.Admin()
			now := func() int64 {
				at, err := admin.Time(t.Context()).Result()
				if err != nil {
					t.Fatal(err)
				}
				return at.UnixMicro()
			}
			crowd := func() {
				var group sync.WaitGroup
				for i := range 4 * pods {
					group.Go(func() { gates[i%pods].Check(t.Context(), bearer(flood.Key), client) })
				}
				group.Wait()
			}
			crowd()
			calls, from, others, sent := own.Calls("evalsha"), now(), 0, 0
			for now() < from+2*time.Second.Microseconds() {
				crowd()
				sent += 4 * pods
				if others < 100 {
					if d := gates[others%pods].Check(t.Context(), bearer(calm.Key), client); d.Outcome != gate.Allowed {
						t.Fatalf("another key, request %d: %+v", others, d)
					}
					others++
				}
				for end := now() + 5_000; now() < end; {
					runtime.Gosched()
				}
			}
			seconds := float64(now()-from) / 1e6
			each := float64(own.Calls("evalsha")-calls-int64(others)) / seconds / float64(pods)
			t.Logf("%d requests of the flood in %.1f s cost %.2f calls a second and pod", sent, seconds, each)
			if each >= 3 {
				t.Errorf("%.2f calls a second and pod", each)
			}
			if least := 50 * 2 * seconds; float64(sent) < least {
				t.Errorf("%d requests were sent, fewer than fifty times the limit (%v)", sent, least)
			}
		})
	}
}
