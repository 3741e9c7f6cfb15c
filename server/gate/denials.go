package gate

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

const (
	// longestDenial bounds how long a pod answers "limited" while nobody asks: the first request after it learns of a
	// raised tier.
	longestDenial = 500 * time.Millisecond
	// longestClaim bounds how long the others are held back while one asks: an answer rarely takes longer.
	longestClaim = 25 * time.Millisecond
	// denialShards and denialsPerShard bound the cache: 16,384 subjects.
	denialShards    = 16
	denialsPerShard = 1024
)

// denials remembers whose bucket is empty until when. Only denials are remembered, never an allowance, so what it says
// is at worst a little too strict: a key that was revoked meanwhile is "limited" for half a second before it is
// "unauthorized". The grant that empties a bucket says as much about the next request as a denial does; and when a token
// is due, or 500 ms have passed, one request asks and the others are refused until it has learned something, for 25 ms at
// most and not when a second token may be there. So a key that is far beyond its limit costs one call a token, or two a
// second, however many of its requests come at once. A denial for which nobody came to ask for another 500 ms is over:
// who comes then is no flood.
type denials struct{ shards [denialShards]denialShard }

type denialShard struct {
	mu      sync.RWMutex
	entries map[subject]denial
}

type denial struct {
	until    time.Time // when somebody is to ask
	over     time.Time // when everybody is
	claimed  bool      // somebody asks
	next     time.Time // when the next token is due
	full     time.Time
	key      uuid.UUID // whose bucket it is; zero for an address's
	decision Decision
}

// standing is what the denials say of a request.
type standing uint8

const (
	unknown standing = iota // it may ask
	claimed                 // it is to ask; the others are held back until answered
	denied
)

func newDenials() *denials {
	d := &denials{}
	for i := range d.shards {
		d.shards[i].entries = map[subject]denial{}
	}
	return d
}

func (d *denials) shard(s *subject) *denialShard { return &d.shards[s.tag()%denialShards] }

// find fills in the decision of a denial that still holds, and returns the key that it is of. Who is told `claimed` calls
// answered with what came of it. The clock is read only where there is a denial to be compared with it: most requests are
// of nobody who was denied.
func (d *denials) find(s *subject, clock func() time.Time, to *Decision) (uuid.UUID, standing) {
	shard := d.shard(s)
	shard.mu.RLock()
	if len(shard.entries) == 0 {
		shard.mu.RUnlock()
		return uuid.Nil, unknown
	}
	found, ok := shard.entries[*s]
	shard.mu.RUnlock()
	if !ok {
		return uuid.Nil, unknown
	}
	now := clock()
	if !now.Before(found.over) {
		return uuid.Nil, unknown
	}
	if !now.Before(found.until) {
		if standing := shard.claim(s, now); standing != denied {
			return uuid.Nil, standing
		}
	}
	*to = found.decision
	to.RetryAfter = max(wholeSeconds(found.next.Sub(now)), time.Second)
	to.Reset = max(wholeSeconds(found.full.Sub(now)), 0)
	return found.key, denied
}

// claim says whether the caller is to ask for the token that may be due. Until it has had time to, nobody else is.
func (s *denialShard) claim(who *subject, now time.Time) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entries[*who]
	switch {
	case !ok || !now.Before(entry.over):
		return unknown
	case now.Before(entry.until):
		return denied
	}
	if end := now.Add(longestClaim); end.Before(entry.over) {
		entry.over = end
	}
	entry.until, entry.claimed = entry.over, true
	s.entries[*who] = entry
	return claimed
}

// answered ends a claim whose answer left more tokens, as when the tier was raised or Redis emptied: what is remembered
// is no longer so, and everybody may ask. Any other answer was remembered, or the claim runs out by itself. What
// somebody else learned meanwhile stays: it is newer.
func (d *denials) answered(s *subject, decision *Decision) {
	if decision.Remaining == 0 {
		return
	}
	shard := d.shard(s)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.entries[*s].claimed {
		delete(shard.entries, *s)
	}
}

// remember keeps for the next request that a bucket which refills at r holds level, less than a token, until that token
// is due. decision is what the request is told whose answer said so.
func (d *denials) remember(s *subject, now time.Time, r rate, level float64, key uuid.UUID, decision Decision) {
	wait := r.until(r.period - level)
	until := min(wait, longestDenial)
	over := min(wait+r.until(r.period), until+longestDenial)
	decision.Outcome, decision.Identity, decision.Remaining = Limited, keys.Identity{}, 0
	shard := d.shard(s)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, known := shard.entries[*s]; !known && len(shard.entries) >= denialsPerShard {
		shard.makeRoom(now)
	}
	shard.entries[*s] = denial{
		until: now.Add(until), over: now.Add(over), next: now.Add(wait), full: now.Add(decision.Reset),
		key: key, decision: decision,
	}
}

// makeRoom drops what no longer holds, and a few more if that is not enough.
func (s *denialShard) makeRoom(now time.Time) {
	for subject, entry := range s.entries {
		if !now.Before(entry.over) || rand.IntN(8) == 0 {
			delete(s.entries, subject)
		}
	}
}
