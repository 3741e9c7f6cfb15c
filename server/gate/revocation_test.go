package gate_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// revocationsVariable sets the number of keys that are created, used and revoked.
const revocationsVariable = "GATE_TEST_REVOCATIONS"

type epoch struct {
	header   []byte
	answered atomic.Bool
}

// hammer has workers check the present key on all pods, until stop is closed. It counts allowed requests that began after the
// revocation was answered.
func hammer(pods []*gatetest.Pod, present *atomic.Pointer[epoch], stop chan struct{}, workers int) (passed, wrong *atomic.Int64, wait func()) {
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
				runtime.Gosched() // as a request does that comes by the network: refusals from memory never wait
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

// revokeUnderLoad revokes the key that workers use on all pods, and makes the next one, n times. It calls step before each
// revocation and after the last one, and reports requests that passed after a revocation was answered.
func revokeUnderLoad(t *testing.T, e *env, pods []*gatetest.Pod, workers, n int, step func(i int)) {
	t.Helper()
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	var present atomic.Pointer[epoch]
	key := e.create(t, "endless")
	present.Store(&epoch{header: bearer(key.Key)})
	stop := make(chan struct{})
	passed, wrong, wait := hammer(pods, &present, stop, workers)
	for i := range n {
		before := passed.Load()
		testkit.Eventually(t, "the key is used", func() bool { return passed.Load() > before+20 })
		step(i)
		check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
		present.Load().answered.Store(true)
		key = e.create(t, "endless")
		present.Store(&epoch{header: bearer(key.Key)})
	}
	step(n)
	close(stop)
	wait()
	if wrong.Load() > 0 {
		t.Errorf("%d of %d passed after the answer", wrong.Load(), passed.Load())
	}
}

func TestNoRequestPassesAfterARevocationIsAnswered(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t), e.newPod(t)}
	revokeUnderLoad(t, e, pods, 64, int(testkit.Size(t, revocationsVariable, 50)), func(int) {})
}

func TestRevocationHoldsWhileRedisIsPausedKilledAndReplaced(t *testing.T) {
	t.Parallel()
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	var r route
	r.to(first)
	hasty := gatetest.Config{Prefix: "p:", Limits: ratelimit.Config{CallTimeout: 250 * time.Millisecond}}
	e := newEnvOn(t, r.client(t, ratelimit.ClientOptions), hasty)
	pods := []*gatetest.Pod{e.gate}
	for range 3 {
		pods = append(pods, gatetest.Start(t, e.pool, r.client(t, ratelimit.ClientOptions), hasty))
	}
	replicate(t, first, second)
	accidents := map[int]func(){
		4:  func() { first.Pause() },
		6:  func() { first.Resume() },
		10: func() { promote(t, second) },
		11: func() { r.to(second); first.Kill() },
		16: func() { second.Pause() },
		17: func() { second.Resume() },
		20: func() { second.Kill() },
		21: func() { second.Start() },
	}
	revokeUnderLoad(t, e, pods, 16, 26, func(i int) {
		if accident := accidents[i]; accident != nil {
			accident()
		}
	})
}

func TestGrantsOfSeveralPodsStayWithinTheBucket(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t)}
	e.tier(t, keys.TierSpec{Name: "quick", Requests: 500, Period: time.Second, Burst: 50})
	key := e.create(t, "quick")
	if !allowed(e.gate, key) {
		t.Fatal("refused")
	}
	start := redisTime(t, e)
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
	if limit := 50 + 500*redisTime(t, e).Sub(start).Seconds() + 1; float64(passed.Load()) > limit {
		t.Errorf("%d passed, at most %.1f may", passed.Load(), limit)
	}
	if passed.Load() < 49 {
		t.Errorf("only %d passed", passed.Load())
	}
}

func redisTime(t *testing.T, e *env) time.Time {
	t.Helper()
	now, err := e.rdb.Time(t.Context()).Result()
	check.NoError(t, err)
	return now
}

func replicate(t *testing.T, master, replica *testkit.RedisServer) {
	t.Helper()
	admin := replica.Admin()
	check.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", master.Port()).Err())
	source := master.Admin()
	testkit.Eventually(t, "the replica has all", func() bool {
		return source.Do(t.Context(), "wait", 1, 10).Val() == int64(1) && admin.DBSize(t.Context()).Val() == source.DBSize(t.Context()).Val()
	})
}

func promote(t *testing.T, replica *testkit.RedisServer) {
	t.Helper()
	check.NoError(t, replica.Admin().ReplicaOf(t.Context(), "no", "one").Err())
}
