package gate_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// revocationsVariable says how many keys are created, used and revoked.
const revocationsVariable = "GATE_TEST_REVOCATIONS"

// epoch is one key's life: created, used by everybody, revoked, answered.
type epoch struct {
	header   []byte
	answered atomic.Bool
}

// hammer has workers check the present key on all pods, until stop is closed. A request that began after the revocation
// was answered and is allowed all the same is counted.
func hammer(pods []*gate.Gate, present *atomic.Pointer[epoch], stop chan struct{}, workers int) (passed, wrong *atomic.Int64, wait func()) {
	passed, wrong = &atomic.Int64{}, &atomic.Int64{}
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			previous := present.Load()
			for {
				select {
				case <-stop:
					return
				default:
				}
				current := present.Load()
				for _, e := range []*epoch{current, previous} {
					answered := e.answered.Load()
					d := pods[i%len(pods)].Check(context.Background(), e.header, client)
					if d.Outcome == gate.Allowed {
						passed.Add(1)
						if answered {
							wrong.Add(1)
						}
					}
				}
				previous = current
			}
		})
	}
	return passed, wrong, group.Wait
}

func TestNoRequestPassesAfterARevocationIsAnswered(t *testing.T) {
	h := newHouse(t, nil)
	pods := []*gate.Gate{h.gate, h.newGate(nil), h.newGate(nil), h.newGate(nil)}
	for _, pod := range pods {
		testkit.Run(t, pod.Run)
	}
	h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	var present atomic.Pointer[epoch]
	key := h.create(t, "endless")
	present.Store(&epoch{header: bearer(key.Key)})
	stop := make(chan struct{})
	passed, wrong, wait := hammer(pods, &present, stop, 64)
	for range int(testkit.Size(t, revocationsVariable, 50)) {
		before := passed.Load()
		testkit.Eventually(t, "the key is used", func() bool { return passed.Load() > before+20 })
		if err := h.store.Revoke(t.Context(), key.Prefix); err != nil {
			t.Fatal(err)
		}
		present.Load().answered.Store(true)
		key = h.create(t, "endless")
		present.Store(&epoch{header: bearer(key.Key)})
	}
	close(stop)
	wait()
	if wrong.Load() > 0 {
		t.Errorf("%d of %d passed after the answer", wrong.Load(), passed.Load())
	}
}

func TestRevocationHoldsWhileRedisIsPausedKilledAndReplaced(t *testing.T) {
	t.Parallel()
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	var r route
	r.to(first)
	hasty := func() redis.UniversalClient { return r.clientWith(t, gate.ClientOptions) }
	h := newHouseOn(t, hasty(), "p:", func(c *gate.Config) { c.Timeout, c.CallTimeout = 0, 0 })
	pods := []*gate.Gate{h.gate}
	for range 3 {
		pods = append(pods, gate.New(gate.Config{Prefix: "p:"}, hasty(), keys.NewReader(h.pool)))
	}
	for _, pod := range pods {
		testkit.Run(t, pod.Run)
	}
	h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	var present atomic.Pointer[epoch]
	key := h.create(t, "endless")
	present.Store(&epoch{header: bearer(key.Key)})
	stop := make(chan struct{})
	passed, wrong, wait := hammer(pods, &present, stop, 16)
	replicate(t, first, second)
	accidents := map[int]func(){
		4:  func() { first.Pause() },
		6:  func() { first.Resume() },
		10: func() { promote(t, second) }, // it holds the present key's record
		11: func() { r.to(second); first.Kill() },
		16: func() { second.Pause() },
		17: func() { second.Resume() },
		20: func() { second.Kill() },
		21: func() { second.Start() },
	}
	for i := range 26 {
		before := passed.Load()
		testkit.Eventually(t, "the key is used", func() bool { return passed.Load() > before+20 })
		if accident := accidents[i]; accident != nil {
			accident()
		}
		if err := h.store.Revoke(t.Context(), key.Prefix); err != nil {
			t.Fatal(err)
		}
		present.Load().answered.Store(true)
		key = h.create(t, "endless")
		present.Store(&epoch{header: bearer(key.Key)})
	}
	close(stop)
	wait()
	if wrong.Load() > 0 {
		t.Errorf("%d of %d passed after the answer", wrong.Load(), passed.Load())
	}
}

func TestGrantsOfSeveralPodsStayWithinTheBucket(t *testing.T) {
	h := newHouse(t, nil)
	pods := []*gate.Gate{h.gate, h.newGate(nil), h.newGate(nil)}
	h.tier(t, keys.TierSpec{Name: "quick", Requests: 500, Period: time.Second, Burst: 50})
	key := h.create(t, "quick")
	if !allowed(h.gate, key) { // the record is there
		t.Fatal("refused")
	}
	start := redisTime(t, h)
	var passed atomic.Int64
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			for range 400 {
				if allowed(pods[i%len(pods)], key) {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if limit := 50 + 500*redisTime(t, h).Sub(start).Seconds() + 1; float64(passed.Load()) > limit {
		t.Errorf("%d passed, at most %.1f may", passed.Load(), limit)
	}
	if passed.Load() < 49 {
		t.Errorf("only %d passed", passed.Load())
	}
}

func redisTime(t *testing.T, h *house) time.Time {
	t.Helper()
	now, err := h.rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}
