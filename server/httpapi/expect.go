package httpapi

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/gate"
)

// readHeader is fasthttp's HeaderReceived hook: it makes fasthttp understand Expect as RFC 9110 §10.1.1 means it, in any
// case, and neither from HTTP/1.0 nor without a body.
func readHeader(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if expect := header.PeekCanonical(fieldExpect); len(expect) > 0 {
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

// earlyKey is where the gate's decision stands when it was asked before the handler.
type earlyKey struct{}

// earlyDecision is that decision, and when it was made.
type earlyDecision struct {
	gate.Decision
	asked, decided time.Time
}

// answerExpectation is fasthttp's ExpectHandler. It tells who asks before sending a body to go on, if the gate lets it pass
// and the body is not too large; else the handler answers without the body, as it would with it.
func (s *Server) answerExpectation(ctx *fasthttp.RequestCtx) int {
	early := earlyDecision{asked: time.Now()}
	early.Decision = s.checkGate(s.life, ctx)
	early.decided = time.Now()
	ctx.SetUserValue(earlyKey{}, early)
	access := accessOpen
	if bytes.HasPrefix(ctx.Request.URI().PathOriginal(), []byte(examPaths)) { // as wrapUnknown has it
		access = accessKey
	}
	if admit(access, early.Decision) == nil && ctx.Request.Header.ContentLength() <= s.cfg.MaxBodyBytes {
		return fasthttp.StatusContinue
	}
	refuseRest(ctx)
	s.http.Handler(ctx)
	return ctx.Response.StatusCode()
}

// askGate asks the gate once about each request. The span of a decision that was made before the request's own began is
// made up afterwards, with its true times: it ends before its parent begins.
func (s *Server) askGate(ctx context.Context, http *fasthttp.RequestCtx) gate.Decision {
	if early, decided := http.UserValue(earlyKey{}).(earlyDecision); decided {
		_, span := s.startGateSpan(ctx, trace.WithTimestamp(early.asked))
		endGateSpan(span, early.Decision, trace.WithTimestamp(early.decided))
		return early.Decision
	}
	ctx, span := s.startGateSpan(ctx)
	decision := s.checkGate(ctx, http)
	endGateSpan(span, decision)
	return decision
}

func (s *Server) checkGate(ctx context.Context, http *fasthttp.RequestCtx) gate.Decision {
	return s.gate.Check(ctx, http.Request.Header.PeekCanonical(fieldAuthorization), clientAddress(http, s.cfg.TrustedProxies))
}

// startGateSpan begins a span of the gate's decision, which is the wait for Redis, if the request is sampled; else none,
// at no cost.
func (s *Server) startGateSpan(ctx context.Context, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if s.tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return s.tracer.Start(ctx, "gate", options...) //nolint:spancheck // endGateSpan ends it
}

func endGateSpan(span trace.Span, decision gate.Decision, options ...trace.SpanEndOption) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("examprep.gate.outcome", decision.Outcome.String()), attribute.Bool("examprep.gate.of_key", decision.OfKey))
	span.End(options...)
}
