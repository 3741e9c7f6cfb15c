package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// livesVariable says how often Redis is restarted.
const livesVariable = "GATE_TEST_LIVES"

// TestBucketsOutliveRedisAsFarAsItsDataDoes kills Redis between crowds, again and again. Where it keeps nothing, each of
// its lives is a bucket that begins full: nobody knows what was taken before, and to begin empty would refuse those who
// have done nothing. Where it keeps its log, the bucket is one from first to last, although each key is verified anew in
// each life.
func TestBucketsOutliveRedisAsFarAsItsDataDoes(t *testing.T) {
	for name, c := range map[string]struct {
		arguments []string
		keeps     bool
	}{
		"it keeps nothing": {nil, false},
		"it keeps its log": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			own := testkit.StartRedis(t, c.arguments...)
			h := newHouseOn(t, clientOf(t, own), "p:", nil)
			pods, registries, skipped := wrongClocks(h)
			admin := own.Admin()
			redisClock := clock{admin}
			var stories []*story
			for _, tier := range someTiers() {
				h.tier(t, tier)
				stories = append(stories, &story{key: h.create(t, tier.Name), tier: tier})
			}
			h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
			probe := h.create(t, "endless")
			for life := range int(testkit.Size(t, livesVariable, 3)) {
				for range 4 {
					present := life
					if c.keeps {
						present = 0 // the bucket's life, not the server's
					}
					send(t, redisClock, present, pods, 1+rand.IntN(25), stories...)
					redisClock.pass(t, time.Duration(rand.IntN(20))*time.Millisecond)
				}
				own.Kill()
				own.Start()
				skipped.Add(int64(3 * time.Hour)) // no pod remembers a denial by now
				for i, pod := range pods {
					testkit.Eventually(t, "the pod believes the new life", func() bool { return believes(t, pod, probe.Key, registries[i]) })
				}
			}
			for _, whole := range stories {
				for _, s := range whole.lives() {
					if err := s.judge(); err != nil {
						t.Errorf("life %d: %v", s.crowds[0].life, err)
					}
				}
			}
		})
	}
}

// believes says whether a pod is served by Redis: one that asks and is not says that it is degraded.
func believes(t *testing.T, pod *gate.Gate, key string, registry *prometheus.Registry) bool {
	t.Helper()
	return pod.Check(t.Context(), bearer(key), client).Outcome == gate.Allowed && degraded(t, registry) == 0
}
