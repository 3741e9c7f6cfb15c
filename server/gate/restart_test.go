package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// livesVariable sets how often Redis is restarted.
const livesVariable = "GATE_TEST_LIVES"

// TestBucketsOutliveRedisAsFarAsItsDataDoes kills Redis between bursts, again and again. If Redis keeps nothing, the bucket
// is full after each start. If Redis keeps its log, the bucket is one from first to last.
func TestBucketsOutliveRedisAsFarAsItsDataDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arguments []string
		keeps     bool
	}{
		"it keeps nothing": {nil, false},
		"it keeps its log": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := testkit.StartRedis(t, c.arguments...)
			f := newFleet(t, own)
			redisClock := clock{own.Admin()}
			var all, present []*history
			for _, tier := range someTiers() {
				f.tier(t, tier)
				present = append(present, &history{key: f.create(t, tier.Name), tier: tier})
			}
			all = append(all, present...)
			f.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
			probe := f.create(t, "endless")
			for life := range int(testkit.Size(t, livesVariable, 3)) {
				if life > 0 && !c.keeps {
					for i, h := range present {
						present[i] = &history{key: h.key, tier: h.tier}
					}
					all = append(all, present...)
				}
				for range 4 {
					send(t, redisClock, f.pods, 1+rand.IntN(25), present...)
					redisClock.pass(t, time.Duration(rand.IntN(20))*time.Millisecond)
				}
				own.Kill()
				own.Start()
				f.skipped.Add(int64(3 * time.Hour)) // no pod remembers a denial
				for i, pod := range f.pods {
					testkit.Eventually(t, "the pod uses Redis again", func() bool { return usesRedis(t, pod, probe, f.registries[i]) })
				}
			}
			for i, h := range all {
				if err := h.check(); err != nil {
					t.Errorf("history %d: %v", i, err)
				}
			}
		})
	}
}
