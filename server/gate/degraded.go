package gate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// checkDegraded decides about a key without Redis: is it valid, by PostgreSQL, and does this pod's share of its bucket
// have a token. cause says why Redis is not used.
func (g *Gate) checkDegraded(ctx context.Context, s *subject, client netip.Addr, cause error, d *Decision) {
	if ctx.Err() != nil || errors.Is(cause, errOverloaded) {
		unavailable(d)
		return
	}
	var o outcome
	g.postgres.do(ctx, s, &o)
	g.metrics.load(o)
	switch {
	case o.err != nil:
		unavailable(d)
		return
	case o.record == nil || o.record.Revoked:
		g.checkAddress(ctx, client, d)
		return
	}
	record := o.record
	o = outcome{}
	r := rateOf(record.Tier)
	g.shares.take(s, r, g.cfg.Now(), &o)
	o.verdict.rate, o.verdict.identity = r, record.Identity
	g.decide(s, &o, d)
}

// maxShares bounds the buckets kept for degraded mode; beyond it the longest idle of a sample is forgotten.
const maxShares = 65_536

// shares are this pod's buckets while Redis is away: each a live pod's part of the whole, filled and emptied like the
// whole. They outlive the outage, so that a Redis that comes and goes does not refill them.
type shares struct {
	mu      sync.Mutex
	pods    int // how many share, as of the last heartbeat
	buckets map[subject]*share
}

type share struct {
	at    time.Time
	level float64 // in units of 1/period tokens
}

func newShares() *shares { return &shares{pods: 1, buckets: map[subject]*share{}} }

// setPods notes how many pods are alive.
func (s *shares) setPods(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = max(n, 1)
}

// take asks this pod's share of a bucket for a token. A share refills at rate/pods and holds burst/pods, but always one
// token at least. The verdict's level is scaled to what is left to the request here.
func (s *shares) take(who *subject, r rate, now time.Time, o *outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.refilled(who, r, now)
	o.allowed, o.err = b.level >= r.period, nil
	if o.allowed {
		b.level -= r.period
		o.verdict.granted = 1
		o.verdict.level = b.level
		return
	}
	// The next token comes to the share after (period - level) units at a pods-th of the rate.
	o.verdict.level = r.period - (r.period-b.level)*float64(s.pods)
}

// giveBack undoes a take that was allowed.
func (s *shares) giveBack(who *subject, r rate, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refilled(who, r, now).level += r.period
}

// empty says whether take would be refused.
func (s *shares) empty(who *subject, r rate, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buckets[*who] != nil && s.refilled(who, r, now).level < r.period
}

// refilled returns the share as it is now. The caller holds the lock.
func (s *shares) refilled(who *subject, r rate, now time.Time) *share {
	capacity := math.Max(r.capacity()/float64(s.pods), r.period)
	b := s.buckets[*who]
	if b == nil {
		if len(s.buckets) >= maxShares {
			s.forget()
		}
		b = &share{at: now, level: capacity}
		s.buckets[*who] = b
	}
	if elapsed := now.Sub(b.at); elapsed > 0 {
		b.level += elapsed.Seconds() * 1e6 * float64(r.requests) / float64(s.pods)
		b.at = now
	}
	b.level = math.Min(b.level, capacity)
	return b
}

// forget drops the longest idle of a random sample (map order is random).
func (s *shares) forget() {
	var oldest subject
	var at time.Time
	seen := 0
	for who, b := range s.buckets {
		if seen == 0 || b.at.Before(at) {
			oldest, at = who, b.at
		}
		if seen++; seen == 8+rand.IntN(8) {
			break
		}
	}
	delete(s.buckets, oldest)
}
