package httpapi

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
)

// longestHold bounds how long a refusal is held back: Retry-After says one second at least, so a client that obeys it loses
// nothing.
const longestHold = time.Second

// holdRefusals slows a flood of refusals down: of 401 and 429 without a valid key. They cost their sender next to nothing
// and us most of what an answer costs, so beyond [Config.RefusalsPerSecond] each waits for its turn. More than a second's
// worth does not wait: those lose their connection at once.
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
	if s.refusals.Allow() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestHold)
	defer cancel()
	if s.refusals.Wait(ctx) != nil { // at once where its turn would come too late
		http.SetConnectionClose()
		return
	}
	s.metrics.held.Inc()
}
