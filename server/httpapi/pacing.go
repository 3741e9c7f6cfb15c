package httpapi

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
)

// longestHold bounds how long a refusal is held back: Retry-After says one second at least, so a client that obeys it loses
// nothing.
const longestHold = time.Second

// holdRefusals limits 401, and 429 without a valid key, to [Config.RefusalsPerSecond]: they cost their sender next to
// nothing. Excess ones wait up to a second, with all that is pipelined on their connection; if that is not enough, they lose
// it. There is one queue for all clients, and a request with a valid key is never in it. The connections of a trusted proxy
// are exempt; those of another load balancer are held and lost with its clients' requests.
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
