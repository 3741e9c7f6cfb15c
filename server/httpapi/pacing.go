package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// longestHold bounds how long a refusal is held back: Retry-After says one second at least, so a client that obeys
	// it loses nothing.
	longestHold = time.Second
)

// pacer lets so much of something pass a second, in the order of asking, and after a quiet time a second's worth at once.
type pacer struct {
	rate float64 // a second
	now  func() time.Time

	mu sync.Mutex
	// due is when all that was let in so far will have passed.
	due time.Time
}

func newPacer(rate int, now func() time.Time) *pacer { return &pacer{rate: float64(rate), now: now} }

// reserve lets n more pass and returns how long they must wait for it. Where that would be longer than longest, nothing
// is reserved and ok is false.
func (p *pacer) reserve(n int, longest time.Duration) (wait time.Duration, ok bool) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if quiet := now.Add(-time.Second); p.due.Before(quiet) {
		p.due = quiet
	}
	if wait = p.due.Sub(now); wait > longest {
		return 0, false
	}
	p.due = p.due.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return max(wait, 0), true
}

// holdRefusals slows a flood of refusals down: of 401 and 429 without a valid key. They cost their sender next to nothing
// and us most of what an answer costs, so beyond [Config.RefusalsPerSecond] each waits for its turn. More than a second's
// worth does not wait: those are held a second and then lose their connection, at once when half of all connections are
// taken, so that held ones never leave others without a place.
//
// There is one queue for all clients: who floods delays the refusals of others, never their answers. A request with a
// valid key is not held, not even its 429; nor is any other refusal: 400, 404 and 405 where no key is asked for, HTTP that
// cannot be read. Those are bounded by the allowance of their address alone.
//
// What is held is a connection. What was pipelined with a held refusal, before it or behind it, waits with it. Behind a
// load balancer that is not one of [Config.TrustedProxies] it is the balancer's connections that are held and lost, and
// whoever's requests it sends on them. The connections of a trusted proxy are never held: slowing down is its part then.
func (s *Server) holdRefusals(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		err := next(ctx, r)
		switch r.http.Response.StatusCode() {
		case fasthttp.StatusUnauthorized, fasthttp.StatusTooManyRequests:
			if !r.ofKey && !trusts(s.cfg.TrustedProxies, peerOf(r.http)) {
				s.hold(ctx, r.http)
			}
		}
		return err
	}
}

func (s *Server) hold(ctx context.Context, http *fasthttp.RequestCtx) {
	wait, kept := s.refusals.reserve(1, longestHold)
	if !kept {
		http.SetConnectionClose()
		own, ok := http.Conn().(*conn)
		if !ok || own.listener.crowded() {
			return
		}
		wait = longestHold
	}
	if wait == 0 {
		return
	}
	s.metrics.held.Inc()
	pause := time.NewTimer(wait)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}
