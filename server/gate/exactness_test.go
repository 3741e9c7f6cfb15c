package gate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/ratelimit/buckettest"
)

// newBuckets makes a tier of each rate. It returns a function that returns the history of a new key of such a tier.
func newBuckets(t *testing.T, e *env, pods []*gatetest.Pod) func(rate buckettest.Rate) *buckettest.History {
	t.Helper()
	for _, rate := range buckettest.Rates() {
		e.tier(t, keys.TierSpec{Name: rate.Name, Requests: rate.Requests, Period: rate.Period, Burst: rate.Burst})
	}
	return func(rate buckettest.Rate) *buckettest.History {
		header := bearer(e.create(t, rate.Name).Key)
		// A pod denies from memory for at most 500 ms.
		return &buckettest.History{Rate: rate, Remembered: 600 * time.Millisecond, Take: func(pod int) (bool, error) {
			d := pods[pod].Check(context.Background(), header, client)
			if d.Outcome != gate.Allowed && d.Outcome != gate.Limited {
				return false, fmt.Errorf("got %+v for a valid key", d)
			}
			return d.Outcome == gate.Allowed, nil
		}}
	}
}

// The clocks of the pods are hours apart. Package ratelimit has the same test without the denials from memory.
func TestGrantsAreThoseOfAContinuousBucketHoweverTheyAreAsked(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	var pods []*gatetest.Pod
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Minute} {
		now := func() time.Time { return time.Now().Add(ahead) }
		pods = append(pods, e.newPodWith(t, gatetest.Config{Gate: gate.Config{Now: now}, Limits: ratelimit.Config{Now: now}}))
	}
	buckettest.Play(t, buckettest.World{Clock: buckettest.Clock{Redis: e.rdb}, Pods: len(pods), New: newBuckets(t, e, pods)})
}
