package httpapi

import (
	"context"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi/endpoint"
)

// tracing begins spans. A request that is not recorded costs a random number.
type tracing struct {
	tracer trace.Tracer // nil: no spans
	draw   func() bool  // picks requests; nil: all
	trust  bool         // a request's traceparent counts
}

// start begins the span of a request that is recorded. A trusted traceparent is its parent, another one a link.
func (t tracing) start(ctx context.Context, route *endpoint.Route, r *exchange) (context.Context, trace.Span) {
	if t.tracer == nil {
		return ctx, nil
	}
	var parent trace.SpanContext
	if t.trust {
		parent = callerOf(r.HTTP)
	}
	if isRecorded := parent.IsSampled() || !parent.IsValid() && (t.draw == nil || t.draw()); !isRecorded {
		return ctx, nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", route.Method), attribute.String("http.route", route.Path),
		attribute.String("examprep.request_id", string(r.ID)))}
	if !t.trust {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: callerOf(r.HTTP)})) // without a caller it is ignored
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	return t.tracer.Start(ctx, route.Operation, options...) //nolint:spancheck // observe ends it
}

// callerOf returns the span of a request's traceparent. Its tracestate is left out: a client can write text of any length there.
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

// startGate begins a span of the gate's decision, which is the wait for Redis, if the request is recorded.
func (t tracing) startGate(ctx context.Context) (context.Context, trace.Span) {
	if t.tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return t.tracer.Start(ctx, "gate") //nolint:spancheck // endGateSpan ends it
}

func endGateSpan(span trace.Span, decision gate.Decision) {
	if span == nil {
		return
	}
	span.SetAttributes(
		attribute.String("examprep.gate.outcome", decision.Outcome.String()), attribute.Bool("examprep.gate.of_key", decision.OfKey))
	span.End()
}
