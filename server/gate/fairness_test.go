package gate_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// TestAKeyFarBeyondItsLimitCostsRedisLittle: one key sends hundreds of times what its tier allows, several requests at
// once on each pod; what that costs Redis is counted by Redis, against Redis's time. The others pass as if it were not
// there.
func TestAKeyFarBeyondItsLimitCostsRedisLittle(t *testing.T) {
	for _, pods := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d pods", pods), func(t *testing.T) {
			own := testkit.StartRedis(t)
			h := newHouseOn(t, clientOf(t, own), "p:", nil)
			admin := own.Admin()
			redisClock := clock{admin}
			h.tier(t, keys.TierSpec{Name: "two a second", Requests: 120, Period: time.Minute, Burst: 1})
			flood, calm := &story{key: h.create(t, "two a second")}, h.create(t, "default")
			var gates []*gate.Gate
			for range pods { // none of them runs, so nothing but requests calls the script
				gates = append(gates, h.newGate(nil))
			}
			for i := range 2 * pods { // everybody knows both keys, and that the bucket of one is empty
				send(t, redisClock, 0, gates[i%pods:][:1], 1, flood, &story{key: calm})
			}
			flood.crowds = nil
			calls, from, others := own.Calls("evalsha"), redisClock.now(t), 0
			for redisClock.now(t) < from+2*time.Second.Microseconds() {
				send(t, redisClock, 0, gates, 4*pods, flood)
				if others < 100 {
					if d := gates[others%pods].Check(t.Context(), bearer(calm.Key), client); d.Outcome != gate.Allowed {
						t.Fatalf("another key, request %d: %+v", others, d)
					}
					others++
				}
				redisClock.pass(t, 5*time.Millisecond)
			}
			seconds, sent := float64(redisClock.now(t)-from)/1e6, 4*pods*len(flood.crowds)
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

// TestAForgottenScriptIsLoadedOnceByEachPod: Redis forgets its scripts while 64 clients ask four pods.
func TestAForgottenScriptIsLoadedOnceByEachPod(t *testing.T) {
	own := testkit.StartRedis(t)
	h := newHouseOn(t, clientOf(t, own), "p:", nil)
	pods := []*gate.Gate{h.gate, h.newGate(nil), h.newGate(nil), h.newGate(nil)}
	for _, pod := range pods {
		testkit.Run(t, pod.Run)
	}
	h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key := h.create(t, "endless")
	var passed, refused atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if allowed(pods[i%len(pods)], key) {
					passed.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	admin := own.Admin()
	const times = 10
	more := func() {
		before := passed.Load()
		testkit.Eventually(t, "the key is used", func() bool { return passed.Load() > before+200 })
	}
	more()
	loads := own.Calls("script|load")
	for range times {
		if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		more()
	}
	close(stop)
	group.Wait()
	loads = own.Calls("script|load") - loads
	t.Logf("%d loads after %d flushes, %d passed", loads, times, passed.Load())
	if loads < times || loads > times*int64(len(pods)) {
		t.Errorf("%d loads after %d flushes, with %d pods", loads, times, len(pods))
	}
	if refused.Load() > 0 {
		t.Errorf("%d of %d were refused", refused.Load(), passed.Load())
	}
}
