package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"examprep.dev/server/ratelimit"
	"examprep.dev/server/ratelimit/buckettest"
	"examprep.dev/server/testkit"
)

// The clocks of the pods are hours apart.
func TestGrantsAreThoseOfOneContinuousBucket(t *testing.T) {
	rdb, prefix := shared(t)
	var pods []*ratelimit.Limiter
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Minute} {
		pods = append(pods, newLimiter(t, ratelimit.Config{
			Prefix: prefix, CallTimeout: testkit.Patience, Now: func() time.Time { return time.Now().Add(ahead) },
		}, open(t, testkit.RedisURL(t), patientOptions)))
	}
	next := 0
	buckettest.Play(t, buckettest.World{
		Clock: buckettest.Clock{Redis: rdb}, Pods: len(pods),
		New: func(spec buckettest.Rate) *buckettest.History {
			bucket, rate := id(next), rate(t, spec.Requests, spec.Period, spec.Burst)
			next++
			return &buckettest.History{Rate: spec, Take: func(pod int) (bool, error) {
				got, err := pods[pod].Take(context.Background(), bucket, rate)
				if err == nil && got.Local {
					err = fmt.Errorf("decided without Redis: %+v", got)
				}
				return got.Allowed, err
			}}
		},
		Lose: func() { rdb.Del(t.Context(), prefix+"buckets") },
	})
}
