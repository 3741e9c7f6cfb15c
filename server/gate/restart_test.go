package gate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit/buckettest"
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
			redisClock := buckettest.Clock{Redis: own.Admin()}
			newBucket := newBuckets(t, f.env, f.pods)
			var buckets []*buckettest.History
			for _, rate := range buckettest.Rates() {
				buckets = append(buckets, newBucket(rate))
			}
			f.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
			probe := f.create(t, "endless")
			dataLife := 0
			for life := range int(testkit.Size(t, livesVariable, 3)) {
				if !c.keeps {
					dataLife = life
				}
				for range 4 {
					redisClock.Send(t, dataLife, 0, len(f.pods), 1+rand.IntN(25), buckets...)
					redisClock.Pass(t, time.Duration(rand.IntN(20))*time.Millisecond)
				}
				own.Kill()
				own.Start()
				f.skipped.Add(int64(3 * time.Hour)) // no pod remembers a denial
				for i, pod := range f.pods {
					testkit.Eventually(t, "the pod uses Redis again", func() bool { return usesRedis(t, pod, probe, f.registries[i]) })
				}
			}
			for _, bucket := range buckets {
				if err := bucket.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
