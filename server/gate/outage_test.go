package gate_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// fleet is four pods on one Redis server and no other. Their clocks are an hour apart from each other and from Redis. All
// their clocks skip the time that is added to skipped.
type fleet struct {
	*env

	pods       []*gatetest.Pod
	registries []*prometheus.Registry
	skipped    atomic.Int64
}

func newFleet(t *testing.T, own *testkit.RedisServer) *fleet {
	t.Helper()
	f := &fleet{env: newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:"})}
	f.gate.Stop()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Minute} {
		now := func() time.Time { return time.Now().Add(ahead + time.Duration(f.skipped.Load())) }
		registry := prometheus.NewRegistry()
		f.registries = append(f.registries, registry)
		f.pods = append(f.pods, gatetest.Start(t, f.pool, clientOf(t, own), gatetest.Config{
			Prefix: "p:", Gate: gate.Config{Now: now}, Limits: ratelimit.Config{Now: now, Registerer: registry},
		}))
	}
	for _, pod := range f.pods {
		testkit.Eventually(t, "the pod knows the others", func() bool { return pod.Directory.Pods() == len(f.pods) })
	}
	return f
}

// usesRedis reports whether a pod gets tokens from Redis. A pod that fails to get this one from Redis is degraded.
func usesRedis(t *testing.T, pod *gatetest.Pod, probe keys.CreatedKey, registry *prometheus.Registry) bool {
	t.Helper()
	return allowed(pod, probe) && degraded(t, registry) == 0
}

// TestAFailedCallIsChargedOnceAtMost: a call that was sent can have taken a token although no reply came. It is not sent
// again.
func TestAFailedCallIsChargedOnceAtMost(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t)
	var r route
	r.to(own)
	registry := prometheus.NewRegistry()
	e := newEnvOn(t, r.client(t, ratelimit.ClientOptions), gatetest.Config{
		Prefix: "p:", Limits: ratelimit.Config{CallTimeout: 250 * time.Millisecond, Registerer: registry},
	})
	e.tier(t, keys.TierSpec{Name: "thirty", Requests: 30, Period: time.Hour})
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key, probe := e.create(t, "thirty"), e.create(t, "endless")
	testkit.Eventually(t, "Redis is used", func() bool { return usesRedis(t, e.gate, key, registry) })
	before := e.gate.Check(t.Context(), bearer(key.Key), client)
	for range 5 {
		own.Pause()
		if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed {
			t.Fatalf("without a reply from Redis: %+v", d)
		}
		own.Resume() // it continues with the calls that it has received
		testkit.Eventually(t, "Redis is used again", func() bool { return usesRedis(t, e.gate, probe, registry) })
	}
	after := e.gate.Check(t.Context(), bearer(key.Key), client)
	if charged := before.Remaining - after.Remaining - 1; after.Outcome != gate.Allowed || charged > 5 {
		t.Errorf("five requests were charged %d tokens", charged)
	}
}

// TestAnOutageGivesAKeyNoMoreThanItsShares: requests of one key are under way on four pods while Redis ends and starts
// again with its log. The key gets its bucket, and from each pod one share of another bucket.
func TestAnOutageGivesAKeyNoMoreThanItsShares(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	f := newFleet(t, own)
	f.tier(t, keys.TierSpec{Name: "closed", Requests: 100, Period: 700 * time.Hour})
	f.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key, probe := f.create(t, "closed"), f.create(t, "endless")
	total := make(chan int)
	stop := make(chan struct{})
	const clients = 16
	for i := range clients {
		go func() {
			passed := 0
			for pod := f.pods[i%len(f.pods)]; ; {
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
		for i := range f.pods {
			testkit.Eventually(t, "the pod uses Redis again", func() bool { return degraded(t, f.registries[i]) == 0 })
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
		t.Errorf("only %d passed of a bucket of 100, although at most %d were under way", passed, clients)
	}
}

// TestAFullRedisIsPurged: Redis refuses all commands that take memory, but not those that free it.
func TestAFullRedisIsPurged(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"by a pod without requests": false, "by a pod whose request found it full": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const past = 3000
			own := testkit.StartRedis(t, "--maxmemory-policy", "noeviction")
			e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:"})
			e.gate.Stop()
			key := e.create(t, "")
			admin := own.Admin()
			fields := make([]any, 0, 2*past)
			for i := range past { // malformed buckets count as full
				fields = append(fields, "past"+strconv.Itoa(i), strings.Repeat("\x00", 24))
			}
			check.NoError(t, admin.HSet(t.Context(), "p:buckets", fields...).Err())
			check.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
			if err := admin.Set(t.Context(), "more", 1, 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
				t.Fatalf("Redis is not full: %v", err)
			}
			pod := gatetest.New(t, e.pool, clientOf(t, own), gatetest.Config{Prefix: "p:"})
			pod.Run(t)
			if busy && (!allowed(pod, key) || !pod.Limiter.Degraded()) {
				t.Fatal("the pod does not use its own buckets")
			}
			testkit.Run(t, pod.Limiter.Run)
			testkit.Eventually(t, "the full buckets are deleted", func() bool { return admin.HLen(t.Context(), "p:buckets").Val() == 0 })
		})
	}
}
