package ratelimit

import "golang.org/x/time/rate"

// maxLocal is the maximum number of buckets in a pod, about 10 MB. Beyond it rarely used buckets are evicted.
const maxLocal = 65_536

// answerLocally takes a token of this pod's share of a bucket, or reads it. The result describes the share, not the whole
// bucket.
func (l *Limiter) answerLocally(asked request) Result {
	id, r := asked.id, asked.rate
	now, pods := l.cfg.Now(), max(l.cfg.Pods(), 1)
	share := Rate{period: r.period * uint64(pods), requests: r.requests, burst: max(r.burst/uint32(pods), 1)}
	limit, burst := rate.Limit(1e6*float64(share.requests)/float64(share.period)), int(share.burst)
	bucket, ok := l.local.GetIfPresent(id)
	if !ok {
		bucket, _ = l.local.SetIfAbsent(id, rate.NewLimiter(limit, burst))
	}
	if bucket.Limit() != limit || bucket.Burst() != burst {
		bucket.SetLimitAt(now, limit)
		bucket.SetBurstAt(now, burst)
	}
	allowed := !asked.peek && bucket.AllowN(now, 1)
	result := share.result(allowed, (float64(burst)-bucket.TokensAt(now))*float64(share.period))
	result.Local = true
	return result
}
