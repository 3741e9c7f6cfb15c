package gate

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

const (
	// longestDenial bounds how long a pod answers "limited" without asking, and so how late a raised tier is seen.
	longestDenial = 500 * time.Millisecond
	// longestClaim bounds how long the others are held back while one asks for a token that is due: an answer rarely takes
	// longer.
	longestClaim = 25 * time.Millisecond
	// denialShards and denialsPerShard bound the cache: 16,384 subjects.
	denialShards    = 16
	denialsPerShard = 1024
)

// denials remembers whose bucket is empty until when. Only denials are remembered, never an allowance, so what it says
// is at worst a little too strict: a key that was revoked meanwhile is "limited" for half a second before it is
// "unauthorized". The grant that empties a bucket says as much about the next request as a denial does; and when a token
// is due, one request asks for it and the others wait for what it learns, until a second token may be there. So a key
// that is far beyond its limit costs one call a token, or two a second, however many of its requests come at once.
type denials struct{ shards [denialShards]denialShard }

type denialShard struct {
	mu      sync.RWMutex
	entries map[subject]denial
}

type denial struct {
	until    time.Time
	next     time.Time // when the next token is due
	second   time.Time // and the one after it
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
	if !ok || !now.Before(found.second) {
		return uuid.Nil, false
	}
	if !now.Before(found.until) && shard.claim(s, now) {
		return uuid.Nil, false
	}
	*to = found.decision
	to.RetryAfter = max(wholeSeconds(found.next.Sub(now)), time.Second)
	to.Reset = max(wholeSeconds(found.full.Sub(now)), 0)
	return found.key, true
}

// claim says whether the caller is to ask for the token that may be due. Until it has had time to, nobody else is; what
// it learns is remembered, or else (tokens are left, as when the tier was raised) everybody asks again.
func (s *denialShard) claim(who *subject, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entries[*who]
	if !ok || now.Before(entry.until) {
		return !ok
	}
	entry.until = now.Add(longestClaim)
	if entry.second.Before(entry.until) {
		entry.until = entry.second
	}
	entry.second = entry.until
	s.entries[*who] = entry
	return true
}

// remember keeps for the next request that a bucket which refills at r holds level, less than a token, until that token
// is due. decision is what the request is told whose answer said so.
func (d *denials) remember(s *subject, now time.Time, r rate, level float64, key uuid.UUID, decision Decision) {
	wait := r.until(r.period - level)
	decision.Outcome, decision.Identity, decision.Remaining = Limited, keys.Identity{}, 0
	shard := d.shard(s)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, known := shard.entries[*s]; !known && len(shard.entries) >= denialsPerShard {
		shard.makeRoom(now)
	}
	shard.entries[*s] = denial{
		until: now.Add(min(wait, longestDenial)), next: now.Add(wait), second: now.Add(wait + r.until(r.period)),
		full: now.Add(decision.Reset), key: key, decision: decision,
	}
}

// makeRoom drops what no longer holds, and a few more if that is not enough.
func (s *denialShard) makeRoom(now time.Time) {
	for subject, entry := range s.entries {
		if !now.Before(entry.second) || rand.IntN(8) == 0 {
			delete(s.entries, subject)
		}
	}
}
