package gate_test

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// wellFormed returns a key that was never created; another for each n.
func wellFormed(n int) string {
	body := fmt.Sprintf("%s%040x", keys.Scheme, n)
	sum := crc32.ChecksumIEEE([]byte(body))
	return body + hex.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// malformed returns a key whose checksum is wrong.
func malformed(n int) string {
	text := []byte(wellFormed(n))
	text[len(text)-1] ^= 1
	return string(text)
}

// floodedPod is a pod whose PostgreSQL is unreachable since it has its lease. The clock of its denials stands still, so they
// last. Its Redis has no calls but those of requests.
type floodedPod struct {
	*gatetest.Pod

	redis *testkit.RedisServer
}

// newFloodedPod returns a pod of e whose client addresses have so many requests an hour.
func newFloodedPod(t *testing.T, e *env, anonymous int) floodedPod {
	t.Helper()
	own, start := testkit.StartRedis(t), time.Now()
	proxy := testkit.StartProxy(t, e.pool.Config().ConnString(), testkit.ProxyOptions{})
	pod := gatetest.New(t, testkit.Open(t, proxy.URL), clientOf(t, own), gatetest.Config{
		Prefix: "p:", Clock: e.clock,
		Gate: gate.Config{
			Anonymous: keys.Tier{Requests: anonymous, Period: time.Hour, Burst: anonymous},
			Now:       func() time.Time { return start },
		},
		Directory: directory.Config{Board: directory.NewRedisBoard(e.rdb, e.prefix)},
	})
	pod.Run(t)
	proxy.Cut(true)
	return floodedPod{Pod: pod, redis: own}
}

// calls returns the number of calls to Redis that a function makes.
func (p floodedPod) calls(do func()) int64 {
	before := p.redis.Calls("evalsha") + p.redis.Calls("eval")
	do()
	return p.redis.Calls("evalsha") + p.redis.Calls("eval") - before
}

// TestFloodOfInvalidKeysCostsNothing: the pod answers all of them although PostgreSQL is unreachable. Redis has two calls:
// they take the two tokens of the address.
func TestFloodOfInvalidKeysCostsNothing(t *testing.T) {
	t.Parallel()
	for name, invalid := range map[string]func(int) string{"unknown": wellFormed, "malformed": malformed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, gatetest.Config{})
			used, fresh := e.create(t, ""), e.create(t, "")
			pod := newFloodedPod(t, e, 2)
			if !allowed(pod.Pod, used) {
				t.Fatal("a valid key is refused")
			}
			outcomes := map[gate.Outcome]int{}
			calls := pod.calls(func() {
				for n := range 300 {
					outcomes[pod.Check(t.Context(), bearer(invalid(n)), client).Outcome]++
				}
			})
			if outcomes[gate.Unauthorized] != 2 || outcomes[gate.Limited] != 298 {
				t.Errorf("got %v", outcomes)
			}
			check.Equal(t, calls, 2, "calls to Redis")
			if !allowed(pod.Pod, used) || !allowed(pod.Pod, fresh) {
				t.Error("a valid key from the flood's address is refused")
			}
		})
	}
}

// TestFloodFromManyAddressesStopsNoValidKey: valid keys pass from an address of the flood and from another one, before,
// during and after it.
func TestFloodFromManyAddressesStopsNoValidKey(t *testing.T) {
	t.Parallel()
	const addresses, rounds = 60, 4
	e := newEnv(t, gatetest.Config{})
	valid := e.create(t, "")
	pod := newFloodedPod(t, e, 2)
	passes := func(when string, from netip.Addr) {
		t.Helper()
		expectOutcome(t, pod.Check(t.Context(), bearer(valid.Key), from), gate.Allowed, "%s, from %s", when, from)
	}
	var mu sync.Mutex
	outcomes := map[gate.Outcome]int{}
	calls := pod.calls(func() {
		for round := range rounds {
			passes("before a round", address(round))
			var flood sync.WaitGroup
			for n := range addresses {
				flood.Go(func() {
					d := pod.Check(t.Context(), bearer(wellFormed(round*addresses+n)), address(n))
					mu.Lock()
					defer mu.Unlock()
					outcomes[d.Outcome]++
				})
			}
			passes("during a round", client)
			flood.Wait()
		}
	})
	passes("afterwards", address(1))
	if outcomes[gate.Unauthorized] != 2*addresses || outcomes[gate.Limited] != (rounds-2)*addresses {
		t.Errorf("got %v", outcomes)
	}
	if most := int64(2*addresses + 2*rounds); calls > most {
		t.Errorf("%d calls to Redis, want at most %d", calls, most)
	}
}

// TestAKeyFarBeyondItsLimitCostsRedisLittle: several requests of one key are sent at once on each pod, every 50 ms of the pods'
// clocks. A pod asks Redis each half a second. The other key passes as if the first were not there.
func TestAKeyFarBeyondItsLimitCostsRedisLittle(t *testing.T) {
	t.Parallel()
	for _, pods := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d pods", pods), func(t *testing.T) {
			t.Parallel()
			own, start := testkit.StartRedis(t), time.Now()
			e := newEnv(t, gatetest.Config{})
			e.tier(t, keys.TierSpec{Name: "one", Requests: 1, Period: 700 * time.Hour})
			greedy, calm := e.create(t, "one"), e.create(t, "")
			var passed atomic.Int64
			var gates []*gatetest.Pod
			for range pods { // their limiters do not run and their boards are elsewhere, so only requests call the script
				pod := gatetest.New(t, e.pool, clientOf(t, own), gatetest.Config{
					Prefix: "p:", Clock: e.clock, Directory: directory.Config{Board: directory.NewRedisBoard(e.rdb, e.prefix)},
					Gate: gate.Config{Now: func() time.Time { return start.Add(time.Duration(passed.Load())) }},
				})
				pod.Run(t)
				gates = append(gates, pod)
			}
			together := func() {
				var group sync.WaitGroup
				for i := range 4 * pods {
					group.Go(func() { gates[i%pods].Check(t.Context(), bearer(greedy.Key), client) })
				}
				group.Wait()
			}
			together() // one passes, and each pod learns that the bucket is empty
			together()
			calls, others := own.Calls("evalsha"), 0
			for range 40 { // 2 s
				passed.Add(int64(50 * time.Millisecond))
				together()
				expectOutcome(t, gates[others%pods].Check(t.Context(), bearer(calm.Key), client), gate.Allowed, "another key, request %d", others)
				others++
			}
			check.Equal(t, own.Calls("evalsha")-calls-int64(others), int64(4*pods), "calls for %d requests in two seconds", 40*4*pods)
		})
	}
}
