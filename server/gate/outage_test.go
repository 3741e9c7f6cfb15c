package gate_test

import (
	"strconv"
	"strings"
	"sync"
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

func TestWithoutRedisEachPodGrantsItsShareAndItRecoversByItself(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t)
	registry := prometheus.NewRegistry()
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:", Limits: ratelimit.Config{Registerer: registry}})
	e.tier(t, keys.TierSpec{Name: "ten", Requests: 10, Period: time.Hour})
	key, doomed := e.create(t, "ten"), e.create(t, "ten")
	for range 4 {
		if !allowed(e.gate, key) {
			t.Fatal("refused with Redis there")
		}
	}
	own.Kill()
	passed := 0
	for range 30 {
		if allowed(e.gate, key) {
			passed++
		}
	}
	check.Equal(t, passed, 10, "requests passed by the only pod, whose share is the whole bucket")
	check.Equal(t, degraded(t, registry), 1, "examprep_gate_degraded")
	if !allowed(e.gate, doomed) {
		t.Fatal("the other key is refused")
	}
	e.revoke(t, doomed)
	expectOutcome(t, e.gate.Check(t.Context(), bearer(doomed.Key), client), gate.Unauthorized, "revoked without Redis")
	own.Start()
	testkit.Eventually(t, "the gate uses Redis again", func() bool { return degraded(t, registry) == 0 })
	expectOutcome(t, e.gate.Check(t.Context(), bearer(doomed.Key), client), gate.Unauthorized, "revoked, after recovery")
	if !allowed(e.gate, e.create(t, "ten")) {
		t.Error("a new key is refused after recovery")
	}
}

func degraded(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	return testkit.Series(t, registry)["examprep_gate_degraded"][0].GetGauge().GetValue()
}

// TestADeniedKeyWithTokensAgainLosesNoRequest: a key of a slow tier is denied; then its tier is raised, or Redis loses
// the bucket.
func TestADeniedKeyWithTokensAgainLosesNoRequest(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*testing.T, *env, keys.CreatedKey){
		"its tier is raised": func(t *testing.T, e *env, key keys.CreatedKey) {
			t.Helper()
			check.NoError(t, e.store.SetTier(patient(t), key.Prefix, "many"))
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
