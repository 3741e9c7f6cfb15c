package ratelimit

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// maxLocal is the maximum number of buckets in a pod, about 10 MB. Beyond it rarely used buckets are evicted.
const maxLocal = 65_536

// localBuckets are a pod's shares of the buckets while Redis is not used.
type localBuckets struct {
	pods    func() int
	buckets *otter.Cache[ID, *rate.Limiter]
}

func newLocalBuckets(pods func() int) (*localBuckets, error) {
	buckets, err := otter.New(&otter.Options[ID, *rate.Limiter]{MaximumSize: maxLocal})
	if err != nil {
		return nil, fmt.Errorf("cache of local buckets: %w", err)
	}
	return &localBuckets{pods: pods, buckets: buckets}, nil
}

// take takes a token of this pod's share. The result describes the share, not the whole bucket.
func (l *localBuckets) take(id ID, r Rate, now time.Time) Result {
	pods := max(l.pods(), 1)
	burst, speed := max(int(r.burst)/pods, 1), r.perSecond()/float64(pods)
	bucket, ok := l.buckets.GetIfPresent(id)
	if !ok {
		bucket, _ = l.buckets.SetIfAbsent(id, rate.NewLimiter(rate.Limit(speed), burst))
	}
	if bucket.Burst() != burst || bucket.Limit() != rate.Limit(speed) {
		bucket.SetLimitAt(now, rate.Limit(speed))
		bucket.SetBurstAt(now, burst)
	}
	result := Result{Allowed: r.burst > 0 && bucket.AllowN(now, 1), Local: true}
	tokens := min(bucket.TokensAt(now), float64(burst))
	result.Remaining = max(int(tokens), 0)
	result.NextToken, result.Full = wait(1-tokens, speed), wait(float64(burst)-tokens, speed)
	return result
}

// wait returns how long a bucket takes to gain tokens at speed per second.
func wait(tokens, speed float64) time.Duration {
	if tokens <= 0 || speed <= 0 {
		return 0
	}
	const longest = 1000 * 24 * time.Hour
	return time.Duration(min(tokens/speed*float64(time.Second), float64(longest)))
}
