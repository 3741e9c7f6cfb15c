package httpapi

import (
	"bytes"
	"context"
	"strings"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/gate"
)

// readHeader is fasthttp's HeaderReceived hook: it makes fasthttp understand Expect as RFC 9110 §10.1.1 means it, in any
// case, and neither from HTTP/1.0 nor without a body.
func readHeader(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if expect := header.Peek(fasthttp.HeaderExpect); len(expect) > 0 {
		switch {
		case !header.IsHTTP11() || header.ContentLength() == noBody:
			header.Del(fasthttp.HeaderExpect)
		case strings.EqualFold(string(expect), expectContinue):
			header.Set(fasthttp.HeaderExpect, expectContinue)
		}
	}
	return fasthttp.RequestConfig{}
}

const (
	// noBody is the length that fasthttp gives a request without Content-Length and Transfer-Encoding.
	noBody         = -2
	expectContinue = "100-continue"
)

// decisionKey is where the gate's decision stands when it was asked before the handler.
type decisionKey struct{}

// answerExpectation is fasthttp's ExpectHandler. It tells who asks before sending a body to go on, if the gate lets it pass
// and the body is not too large; else the handler answers without the body, as it would with it.
func (s *Server) answerExpectation(ctx *fasthttp.RequestCtx) int {
	decision := s.askGate(s.life, ctx)
	ctx.SetUserValue(decisionKey{}, decision)
	access := accessOpen
	if bytes.HasPrefix(ctx.Request.URI().PathOriginal(), []byte(examPaths)) { // as wrapUnknown has it
		access = accessKey
	}
	if admit(access, decision) == nil && ctx.Request.Header.ContentLength() <= s.cfg.MaxBodyBytes {
		return fasthttp.StatusContinue
	}
	refuseRest(ctx)
	s.http.Handler(ctx)
	return ctx.Response.StatusCode()
}

// askGate asks the gate once about each request.
func (s *Server) askGate(ctx context.Context, http *fasthttp.RequestCtx) gate.Decision {
	if decision, decided := http.UserValue(decisionKey{}).(gate.Decision); decided {
		return decision
	}
	ctx, span := s.startGateSpan(ctx)
	decision := s.gate.Check(ctx, http.Request.Header.Peek("Authorization"), clientAddress(http, s.cfg.TrustedProxies))
	if span != nil {
		span.SetAttributes(attribute.String("examprep.gate.outcome", decision.Outcome.String()), attribute.Bool("examprep.gate.of_key", decision.OfKey))
		span.End()
	}
	return decision
}

// startGateSpan begins a span of the gate's decision, which is the wait for Redis, if the request is sampled; else none,
// at no cost.
func (s *Server) startGateSpan(ctx context.Context) (context.Context, trace.Span) {
	if s.tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return s.tracer.Start(ctx, "gate") //nolint:spancheck // askGate ends it
}
