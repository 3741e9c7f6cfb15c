package gate

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"

	"examprep.dev/server/ratelimit"
)

const (
	// maxDeniedTime bounds how long an empty bucket is answered from memory, so that a raised limit shows soon.
	maxDeniedTime = 500 * time.Millisecond
	// maxDenied is the maximum number of empty buckets in memory.
	maxDenied = 16_384
)

// deniedCache remembers empty buckets until their next token, so a key far beyond its limit costs Redis one call for each
// token or two a second. Requests that come at once when the token is due share that call (package batch). The pod's own
// buckets are not remembered: they cost Redis nothing.
type deniedCache struct {
	entries *otter.Cache[ratelimit.ID, deniedEntry]
	now     func() time.Time
}

type deniedEntry struct {
	rate      ratelimit.Rate
	at        time.Time // when the bucket was read
	retryAt   time.Time
	nextToken time.Duration // from at on
	full      time.Duration
}

func newDeniedCache(now func() time.Time) (*deniedCache, error) {
	entries, err := otter.New(&otter.Options[ratelimit.ID, deniedEntry]{MaximumSize: maxDenied})
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
	now := c.now()
	if !now.Before(entry.retryAt) {
		return ratelimit.Result{}, false
	}
	elapsed := now.Sub(entry.at)
	return ratelimit.Result{NextToken: entry.nextToken - elapsed, Full: entry.full - elapsed}, true
}

// note remembers a bucket that has no token left. The grant that empties a bucket says so too.
func (c *deniedCache) note(id ratelimit.ID, rate ratelimit.Rate, result ratelimit.Result) {
	if result.Local || result.NextToken <= 0 {
		return
	}
	now := c.now()
	c.entries.Set(id, deniedEntry{
		rate: rate, at: now, retryAt: now.Add(min(result.NextToken, maxDeniedTime)), nextToken: result.NextToken, full: result.Full,
	})
}
