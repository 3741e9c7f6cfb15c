package gate_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// TestAFailedCallIsChargedOnceAtMost: whether a call that was sent took a token nobody knows when no answer comes. It is
// not sent again.
func TestAFailedCallIsChargedOnceAtMost(t *testing.T) {
	own := testkit.StartRedis(t)
	var r route
	r.to(own)
	registry := prometheus.NewRegistry()
	h := newHouseOn(t, r.clientWith(t, gate.ClientOptions), "p:", func(c *gate.Config) {
		c.Timeout, c.CallTimeout, c.Registerer = 0, 0, registry
	})
	h.tier(t, keys.TierSpec{Name: "thirty", Requests: 30, Period: time.Hour})
	h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key, probe := h.create(t, "thirty"), h.create(t, "endless")
	testkit.Eventually(t, "the key is known", func() bool {
		return allowed(h.gate, key) && degraded(t, registry) == 0
	})
	before := h.gate.Check(t.Context(), bearer(key.Key), client)
	for range 5 {
		own.Pause()
		if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed {
			t.Fatalf("without an answer from Redis: %+v", d)
		}
		own.Resume() // it reads on where it stopped
		testkit.Eventually(t, "Redis is believed again", func() bool { return believes(t, h.gate, probe.Key, registry) })
	}
	after := h.gate.Check(t.Context(), bearer(key.Key), client)
	if charged := before.Remaining - after.Remaining - 1; after.Outcome != gate.Allowed || charged > 5 {
		t.Errorf("five requests were charged %d tokens", charged)
	}
}

// slowCalls lets time pass, by the gates' clock, while the next calls that take tokens are under way.
type slowCalls struct{ calls, passed atomic.Int64 }

func (s *slowCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *slowCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if slices.Contains(cmd.Args(), any("c")) && s.calls.Add(-1) >= 0 {
			s.passed.Add(int64(5 * time.Second)) // longer than trust, shorter than a batch may wait here
		}
		return err
	}
}

// TestAnAnswerThatComesTooLateIsChargedOnce: trust in Redis may end while a call is under way. Its answer does not count
// then, but the tokens that it took are those that were asked for.
func TestAnAnswerThatComesTooLateIsChargedOnce(t *testing.T) {
	var slow slowCalls
	h := newHouse(t, func(c *gate.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(slow.passed.Load())) }
	})
	h.rdb.AddHook(&slow)
	h.tier(t, keys.TierSpec{Name: "three", Requests: 3, Period: 700 * time.Hour})
	key := h.create(t, "three")
	for i := range 3 {
		slow.calls.Store(1)
		if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed || d.Remaining != 2-i {
			t.Errorf("request %d: got %+v", i, d)
		}
	}
	if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Limited || !d.OfKey {
		t.Errorf("a fourth of three: got %+v", d)
	}
	crowded := &story{key: h.create(t, "three")}
	send(t, clock{h.rdb}, 0, []*gate.Gate{h.gate}, 1, crowded)
	slow.calls.Store(1)
	send(t, clock{h.rdb}, 0, []*gate.Gate{h.gate}, 5, crowded)
	if got := crowded.crowds[1]; got.granted != 2 || got.denied != 3 {
		t.Errorf("of five together, with two tokens left: got %+v", got)
	}
	other := h.create(t, "three")
	if d := h.gate.Check(t.Context(), bearer(other.Key), client); d.Outcome != gate.Allowed {
		t.Fatalf("got %+v", d)
	}
	// Revoked by somebody who does not announce it: an answer that is too late says nothing of that.
	testkit.Exec(t, h.pool, "UPDATE api_keys SET revoked_at = now(), version = version + 1 WHERE prefix = $1", other.Prefix)
	slow.calls.Store(1)
	if d := h.gate.Check(t.Context(), bearer(other.Key), client); d.Outcome == gate.Allowed {
		t.Errorf("it was revoked before the answer came: got %+v", d)
	}
}

// TestAnOutageGivesAKeyNoMoreThanItsShares: requests of one key are under way on four pods while Redis leaves and comes
// back, with its log. Whatever became of them, the key had its bucket and each pod's share of another, once.
func TestAnOutageGivesAKeyNoMoreThanItsShares(t *testing.T) {
	own := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	h := newHouseOn(t, clientOf(t, own), "p:", nil)
	pods, registries, _ := wrongClocks(h)
	for _, pod := range pods {
		testkit.Run(t, pod.Run)
	}
	knowEachOther(t, own, len(pods))
	h.tier(t, keys.TierSpec{Name: "closed", Requests: 100, Period: 700 * time.Hour})
	h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key, probe := h.create(t, "closed"), h.create(t, "endless")
	total := make(chan int)
	stop := make(chan struct{})
	const clients = 16
	for i := range clients {
		go func() {
			passed := 0
			for pod := pods[i%len(pods)]; ; {
				select {
				case <-stop:
					total <- passed
					return
				default:
				}
				if allowed(pod, probe) && allowed(pod, key) {
					passed++
				}
			}
		}()
	}
	for range 3 {
		own.Kill()
		own.Start()
		for i := range pods {
			testkit.Eventually(t, "the pod believes Redis again", func() bool { return degraded(t, registries[i]) == 0 })
		}
	}
	close(stop)
	passed := 0
	for range clients {
		passed += <-total
	}
	if passed > 200 {
		t.Errorf("%d passed of a bucket of 100 and four shares of 25", passed)
	}
	if passed < 100-clients {
		t.Errorf("only %d passed of a bucket of 100, and of those no more than %d were under way", passed, clients)
	}
}

// knowEachOther returns when so many pods that run, and do nothing else, have heard how many they are: each beats at
// least once in as many calls as all of them make in three rounds.
func knowEachOther(t *testing.T, on *testkit.RedisServer, pods int) {
	t.Helper()
	start := on.Calls("evalsha")
	testkit.Eventually(t, "the pods know of each other", func() bool { return on.Calls("evalsha") >= start+int64(3*pods) })
}
