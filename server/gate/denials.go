package gate

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// longestDenial bounds how long a pod answers "limited" without asking, and so how late a raised tier is seen.
	longestDenial = 500 * time.Millisecond
	// denialShards and denialsPerShard bound the cache: 16,384 subjects.
	denialShards    = 16
	denialsPerShard = 1024
)

// denials remembers whose bucket is empty until when. Only denials are remembered, never an allowance, so what it says
// is at worst a little too strict: a key that was revoked meanwhile is "limited" for half a second before it is
// "unauthorized".
type denials struct{ shards [denialShards]denialShard }

type denialShard struct {
	mu      sync.RWMutex
	entries map[subject]denial
}

type denial struct {
	until    time.Time
	next     time.Time // when the next token is due
	full     time.Time
	key      uuid.UUID // whose bucket it is; zero for an address's
	decision Decision
}

func newDenials() *denials {
	d := &denials{}
	for i := range d.shards {
		d.shards[i].entries = map[subject]denial{}
	}
	return d
}

func (d *denials) shard(s *subject) *denialShard { return &d.shards[s.tag()%denialShards] }

// find fills in the decision of a denial that still holds, and returns the key that it is of.
func (d *denials) find(s *subject, now time.Time, to *Decision) (uuid.UUID, bool) {
	shard := d.shard(s)
	shard.mu.RLock()
	if len(shard.entries) == 0 {
		shard.mu.RUnlock()
		return uuid.Nil, false
	}
	found, ok := shard.entries[*s]
	shard.mu.RUnlock()
	if !ok || !now.Before(found.until) {
		return uuid.Nil, false
	}
	*to = found.decision
	to.RetryAfter = max(wholeSeconds(found.next.Sub(now)), time.Second)
	to.Reset = max(wholeSeconds(found.full.Sub(now)), 0)
	return found.key, true
}

// remember keeps a denial until the next token is due, wait from now.
func (d *denials) remember(s *subject, now time.Time, wait time.Duration, key uuid.UUID, decision *Decision) {
	shard := d.shard(s)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, known := shard.entries[*s]; !known && len(shard.entries) >= denialsPerShard {
		shard.makeRoom(now)
	}
	shard.entries[*s] = denial{
		until: now.Add(min(wait, longestDenial)), next: now.Add(wait), full: now.Add(decision.Reset), key: key, decision: *decision,
	}
}

// makeRoom drops what no longer holds, and a few more if that is not enough.
func (s *denialShard) makeRoom(now time.Time) {
	for subject, entry := range s.entries {
		if !now.Before(entry.until) || rand.IntN(8) == 0 {
			delete(s.entries, subject)
		}
	}
}
