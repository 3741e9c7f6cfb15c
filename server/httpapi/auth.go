package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/httpapi/wire"
)

// authenticate checks framing, key and rate limit, and sets the rate headers. The gate is asked once and charges refused requests
// too. A body that is announced as too large is refused here, also on a route that reads none.
func (s *Server) authenticate(route *endpoint.Route, next handler) handler {
	return func(ctx context.Context, r *exchange) error {
		problem, closes := wire.CheckFraming(&r.HTTP.Request.Header)
		if closes {
			r.HTTP.SetConnectionClose()
		}
		if problem != "" && r.refusal == nil {
			wire.LingerOnClose(r.HTTP)
			r.refusal = apierror.BadRequest(problem)
		}
		r.Client = wire.ClientAddress(r.HTTP, s.cfg.TrustedProxies)
		decision := s.decide(ctx, route, r)
		writeRateHeaders(&r.HTTP.Response.Header, decision)
		r.ofKey = decision.OfKey
		if r.refusal != nil {
			return r.refusal
		}
		if err := admit(route.Access, decision); err != nil {
			return err
		}
		r.Identity = decision.Identity
		if r.HTTP.Request.Header.ContentLength() > maxBody(route, s.cfg.MaxBodyBytes) {
			r.HTTP.SetConnectionClose()
			return apierror.TooLarge()
		}
		return next(ctx, r)
	}
}

// expectation is what the gate decided about a request that waits for "100 Continue".
type expectation struct {
	decision gate.Decision
	asked    bool
	admitted bool
}

// expectationKey names the expectation among fasthttp's user values.
type expectationKey struct{}

// expect is fasthttp's ExpectHandler: it asks the gate before the client sends its body. A request that does not pass, or whose
// operation reads no body, is answered here. The router calls the operation a second time if the client is told to go on.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	expected := new(expectation)
	ctx.SetUserValue(expectationKey{}, expected)
	s.http.Handler(ctx)
	if expected.admitted {
		return fasthttp.StatusContinue
	}
	wire.LingerOnClose(ctx)
	return ctx.Response.StatusCode()
}

// admitsBody asks the gate about a request that waits for "100 Continue", if it was not asked before. It reports whether the client
// must send the body first.
func (s *Server) admitsBody(ctx context.Context, route *endpoint.Route, r *exchange) bool {
	expected, ok := r.HTTP.UserValue(expectationKey{}).(*expectation)
	if !ok || expected.asked {
		return false
	}
	r.Client = wire.ClientAddress(r.HTTP, s.cfg.TrustedProxies)
	expected.asked, expected.decision = true, s.decide(ctx, route, r)
	expected.admitted = route.Needs >= endpoint.Body && r.HTTP.Request.Header.ContentLength() <= maxBody(route, s.cfg.MaxBodyBytes) &&
		admit(route.Access, expected.decision) == nil
	return expected.admitted
}

// decide asks the gate, once for each request. Requests of a developer count by person, so other clients of the address cannot
// use up its allowance. Static files take nothing, so no page lacks a part.
func (s *Server) decide(ctx context.Context, route *endpoint.Route, r *exchange) (decision gate.Decision) {
	if expected, ok := r.HTTP.UserValue(expectationKey{}).(*expectation); ok && expected.asked {
		return expected.decision
	}
	ctx, span := s.tracing.startGate(ctx)
	defer func() {
		endGateSpan(span, decision)
		if decision.OfKey {
			wire.Prove(r.HTTP)
		}
	}()
	if route.Access == endpoint.Static {
		return s.deps.Gate.Peek(ctx, r.Client)
	}
	if route.Access == endpoint.Session {
		if person, ok := s.deps.Developer.Sessions.Authentic(r.HTTP.Request.Header.Cookie(developer.SessionCookie)); ok {
			return s.deps.Gate.CheckSession(ctx, person)
		}
	}
	return s.deps.Gate.Check(ctx, r.HTTP.Request.Header.Peek(fasthttp.HeaderAuthorization), r.Client)
}

// admit returns why a request does not pass. An unknown outcome does not pass.
func admit(access endpoint.Access, decision gate.Decision) error {
	switch {
	case decision.Outcome == gate.Allowed:
		return nil
	case decision.Outcome == gate.Limited:
		return &apierror.Error{
			Status: fasthttp.StatusTooManyRequests, Code: apierror.CodeRateLimited, Detail: "API rate limit exceeded.",
			RetryAfter: max(wholeSeconds(decision.RetryAfter), 1),
		}
	case decision.Outcome != gate.Unauthorized:
		refusal := apierror.Unavailable()
		refusal.RetryAfter = max(wholeSeconds(decision.RetryAfter), refusal.RetryAfter)
		return refusal
	case access == endpoint.APIKey:
		return apierror.New(fasthttp.StatusUnauthorized, apierror.CodeUnauthorized, "Invalid API key")
	default:
		return nil // the address had a token
	}
}

// writeRateHeaders writes the four fields of draft-ietf-httpapi-ratelimit-headers-06, in its spelling.
func writeRateHeaders(header *fasthttp.ResponseHeader, decision gate.Decision) {
	var buffer [64]byte
	set := func(name string, value []byte) { header.SetCanonical([]byte(name), value) }
	set("RateLimit-Limit", strconv.AppendInt(buffer[:0], int64(decision.Limit), 10))
	set("RateLimit-Remaining", strconv.AppendInt(buffer[:0], int64(decision.Remaining), 10))
	set("RateLimit-Reset", strconv.AppendInt(buffer[:0], int64(wholeSeconds(decision.Reset)), 10))
	policy := append(strconv.AppendInt(buffer[:0], int64(decision.Policy.Requests), 10), ";w="...)
	set("RateLimit-Policy", strconv.AppendInt(policy, int64(wholeSeconds(decision.Policy.Window)), 10))
}

// wholeSeconds rounds up, so a client that waits as long is never too early.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
