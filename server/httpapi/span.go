package httpapi

import (
	"context"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/gate"
)

// startSpan begins the server span of a request that is recorded; of others there is none, at the cost of a random number.
// A caller's traceparent is the span's parent only where such headers are trusted, and a link else.
func (s *Server) startSpan(ctx context.Context, route *route, r *request) (context.Context, trace.Span) {
	if s.tracer == nil {
		return ctx, nil
	}
	var caller trace.SpanContext
	if s.cfg.TrustTraceparent {
		if caller = callerOf(r.http); caller.IsValid() && !caller.IsSampled() {
			return ctx, nil
		}
	}
	if !caller.IsValid() && s.draw != nil && !s.draw() {
		return ctx, nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", route.method), attribute.String("http.route", route.path),
		attribute.String("examprep.request_id", string(r.id)))}
	switch {
	case caller.IsValid():
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
	case !s.cfg.TrustTraceparent:
		if link := callerOf(r.http); link.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: link}))
		}
	}
	return s.tracer.Start(ctx, route.operation, options...) //nolint:spancheck // observe ends it
}

// callerOf reads the span that a request says it belongs to. Its tracestate is left out: others' words of any length.
func callerOf(http *fasthttp.RequestCtx) trace.SpanContext {
	header := http.Request.Header.Peek("traceparent")
	if len(header) == 0 {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": string(header)}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

func endSpan(span trace.Span, status int) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= fasthttp.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// askGate asks the gate once about each request. A developer's request is counted by its session, so that other clients
// of the same address cannot use up its allowance.
func (s *Server) askGate(ctx context.Context, route *route, http *fasthttp.RequestCtx) gate.Decision {
	ctx, span := s.startGateSpan(ctx)
	decision := s.decide(ctx, route, http)
	if span != nil {
		span.SetAttributes(attribute.String("examprep.gate.outcome", decision.Outcome.String()), attribute.Bool("examprep.gate.of_key", decision.OfKey))
		span.End()
	}
	return decision
}

func (s *Server) decide(ctx context.Context, route *route, http *fasthttp.RequestCtx) gate.Decision {
	if route.access == accessSession {
		if token := http.Request.Header.Cookie(cookieSession); s.developer.Sessions.Authentic(token) {
			return s.gate.CheckSession(ctx, token)
		}
	}
	return s.gate.Check(ctx, http.Request.Header.PeekCanonical(fieldAuthorization), clientAddress(http, s.cfg.TrustedProxies))
}

// startGateSpan begins a span of the gate's decision, which is the wait for Redis, if the request is sampled; else none,
// at no cost.
func (s *Server) startGateSpan(ctx context.Context) (context.Context, trace.Span) {
	if s.tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return s.tracer.Start(ctx, "gate") //nolint:spancheck // askGate ends it
}
