package gate_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/ratelimit/buckettest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAKeyFarBeyondItsLimitCostsRedisLittle: one key sends hundreds of times what its tier allows, several requests at
// once on each pod. Redis counts its calls, by its own time. The other key passes as if the first were not there.
func TestAKeyFarBeyondItsLimitCostsRedisLittle(t *testing.T) {
	for _, pods := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d pods", pods), func(t *testing.T) {
			own := testkit.StartRedis(t)
			e := newEnv(t, gatetest.Config{})
			e.tier(t, keys.TierSpec{Name: "two a second", Requests: 120, Period: time.Minute, Burst: 1})
			flood, calm := e.create(t, "two a second"), e.create(t, "default")
			var gates []*gatetest.Pod
			for range pods { // their limiters do not run and their boards are elsewhere, so only requests call the script
				pod := gatetest.New(t, e.pool, clientOf(t, own), gatetest.Config{
					Prefix: "p:", Directory: directory.Config{Board: directory.NewRedisBoard(e.rdb, e.prefix)},
				})
				pod.Run(t)
				gates = append(gates, pod)
			}
			redisClock := buckettest.Clock{Redis: own.Admin()}
			together := func() {
				var group sync.WaitGroup
				for i := range 4 * pods {
					group.Go(func() { gates[i%pods].Check(t.Context(), bearer(flood.Key), client) })
				}
				group.Wait()
			}
			together()
			calls, from, others, sent := own.Calls("evalsha"), redisClock.Now(t), 0, 0
			for redisClock.Now(t) < from+2*time.Second.Microseconds() {
				together()
				sent += 4 * pods
				if others < 100 {
					if d := gates[others%pods].Check(t.Context(), bearer(calm.Key), client); d.Outcome != gate.Allowed {
						t.Fatalf("another key, request %d: %+v", others, d)
					}
					others++
				}
				redisClock.Pass(t, 5*time.Millisecond)
			}
			seconds := float64(redisClock.Now(t)-from) / 1e6
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

// TestAForgottenScriptCostsNoRequest: Redis forgets its scripts while 64 clients ask four pods. A pod sends the text again
// for the calls that are under way then, and for no others.
func TestAForgottenScriptCostsNoRequest(t *testing.T) {
	t.Parallel()
	const inFlight = 2
	own := testkit.StartRedis(t)
	e := newEnv(t, gatetest.Config{})
	var pods []*gatetest.Pod
	for range 4 {
		pod := gatetest.New(t, e.pool, clientOf(t, own), gatetest.Config{
			Prefix: "p:", Limits: ratelimit.Config{InFlight: inFlight},
			Directory: directory.Config{Board: directory.NewRedisBoard(e.rdb, e.prefix)},
		})
		pod.Run(t)
		pods = append(pods, pod)
	}
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key := e.create(t, "endless")
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
	loads := own.Calls("eval")
	for range times {
		check.NoError(t, admin.ScriptFlush(t.Context()).Err())
		more()
	}
	close(stop)
	group.Wait()
	loads = own.Calls("eval") - loads
	t.Logf("%d texts sent after %d flushes, %d passed", loads, times, passed.Load())
	if loads < times || loads > times*inFlight*int64(len(pods)) {
		t.Errorf("%d texts sent after %d flushes, with %d pods", loads, times, len(pods))
	}
	if refused.Load() > 0 {
		t.Errorf("%d refused, %d passed", refused.Load(), passed.Load())
	}
}
