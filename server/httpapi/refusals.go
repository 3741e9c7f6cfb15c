package httpapi

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/wire"
)

// maxDelay bounds the delay of a refusal. Retry-After is at least one second, so a client that follows it loses nothing.
const maxDelay = time.Second

// refusals delays 401 responses, and 429 responses without a valid key, beyond [Config.RefusalsPerSecond]: they cost their sender
// almost nothing. Excess ones wait up to a second, with what is pipelined on their connection; if that is not enough, the
// connection is closed then. All clients share one queue. Requests with a valid key and connections of trusted proxies are exempt.
type refusals struct {
	limiter *rate.Limiter
	trusted []netip.Prefix
	held    prometheus.Counter
}

func newRefusals(cfg Config, held prometheus.Counter) *refusals {
	return &refusals{rate.NewLimiter(rate.Limit(cfg.RefusalsPerSecond), cfg.RefusalsPerSecond), cfg.TrustedProxies, held}
}

func (f *refusals) delay(_ *endpoint.Route, next handler) handler {
	return func(ctx context.Context, r *exchange) error {
		err := next(ctx, r)
		switch r.HTTP.Response.StatusCode() {
		case fasthttp.StatusUnauthorized, fasthttp.StatusTooManyRequests:
			if !r.ofKey && !wire.Trusts(f.trusted, wire.Peer(r.HTTP)) {
				f.wait(ctx, r.HTTP)
			}
		}
		return err
	}
}

func (f *refusals) wait(ctx context.Context, http *fasthttp.RequestCtx) {
	if f.limiter.Allow() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxDelay)
	defer cancel()
	if f.limiter.Wait(ctx) != nil { // at once if its turn is too late
		http.SetConnectionClose()
		<-ctx.Done() // a client that is cut off at once would be back at once
	}
	f.held.Inc()
}
