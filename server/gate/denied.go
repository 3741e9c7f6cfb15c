package gate

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"examprep.dev/server/ratelimit"
)

const (
	// maxDeniedTime bounds how long an empty bucket is answered from memory, so that a raised limit shows soon.
	maxDeniedTime = 500 * time.Millisecond
	// askTime bounds how long one request asks Redis for the token that is due while others are denied.
	askTime = 25 * time.Millisecond
	// maxDenied is the maximum number of empty buckets in memory.
	maxDenied = 16_384
)

// deniedCache remembers empty buckets until their next token. Then one request asks Redis, and the others are denied until it
// has an answer. So a key far beyond its limit costs Redis one call for each token or two a second. From the time of a second
// token on, all requests ask. The pod's own buckets are not remembered: they cost Redis nothing.
type deniedCache struct {
	entries *otter.Cache[ratelimit.ID, *deniedEntry]
	now     func() time.Time
}

// deniedEntry is an empty bucket. Times count from at, when it was read.
type deniedEntry struct {
	rate            ratelimit.Rate
	at              time.Time
	nextToken, full time.Duration
	over            time.Duration // when all requests ask
	askAt           atomic.Int64  // when one request asks, in nanoseconds
}

func newDeniedCache(now func() time.Time) (*deniedCache, error) {
	entries, err := otter.New(&otter.Options[ratelimit.ID, *deniedEntry]{MaximumSize: maxDenied})
	if err != nil {
		return nil, fmt.Errorf("cache of empty buckets: %w", err)
	}
	return &deniedCache{entries: entries, now: now}, nil
}

// find returns the answer of a bucket that is still empty. A bucket with another rate than before is not: its tier changed.
func (c *deniedCache) find(id ratelimit.ID, rate ratelimit.Rate) (ratelimit.Result, bool) {
	entry, ok := c.entries.GetIfPresent(id)
	if !ok || entry.rate != rate {
		return ratelimit.Result{}, false
	}
	elapsed := c.now().Sub(entry.at)
	askAt := entry.askAt.Load()
	if elapsed >= entry.over || int64(elapsed) >= askAt && entry.askAt.CompareAndSwap(askAt, int64(elapsed+askTime)) {
		return ratelimit.Result{}, false
	}
	return ratelimit.Result{NextToken: max(entry.nextToken-elapsed, 0), Full: max(entry.full-elapsed, 0)}, true
}

// note remembers a bucket that has no token left, and forgets one that has. The grant that empties a bucket counts too.
func (c *deniedCache) note(id ratelimit.ID, rate ratelimit.Rate, result ratelimit.Result) {
	if result.Local {
		return
	}
	if result.NextToken <= 0 {
		if _, ok := c.entries.GetIfPresent(id); ok {
			c.entries.Invalidate(id)
		}
		return
	}
	ask := min(result.NextToken, maxDeniedTime)
	entry := &deniedEntry{
		rate: rate, at: c.now(), nextToken: result.NextToken, full: result.Full,
		over: min(result.NextToken+rate.TokenTime(), ask+maxDeniedTime),
	}
	entry.askAt.Store(int64(ask))
	c.entries.Set(id, entry)
}
