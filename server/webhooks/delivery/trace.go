package delivery

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/webhooks/delivery/send"
)

// startSpan begins the span of an attempt in the trace of its event. The first attempt also gets a span for the time that the
// event waited. Attributes name rows, never the receiver's URL, which may have tokens. It returns no span if there is no
// tracer or the event's request was not sampled.
func startSpan(ctx context.Context, tracer trace.Tracer, row webhooksdb.LeaseRow, began time.Time) (context.Context, trace.Span) {
	if tracer == nil || row.Traceparent == "" {
		return ctx, nil
	}
	alone := trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // else an invalid traceparent yields ctx's span
	carrier := propagation.MapCarrier{"traceparent": row.Traceparent}
	origin := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(alone, carrier))
	if !origin.IsSampled() {
		return ctx, nil
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, origin)
	about := trace.WithAttributes(attribute.String("examprep.delivery.id", row.ID.String()),
		attribute.String("examprep.event.id", row.EventID.String()), attribute.String("examprep.endpoint.id", row.EndpointID.String()),
		attribute.Int("examprep.delivery.attempt", int(row.Attempt)))
	if row.Attempt == 1 {
		_, waited := tracer.Start(ctx, "outbox", trace.WithTimestamp(createdAt(row)), about)
		waited.End(trace.WithTimestamp(began))
	}
	return tracer.Start(ctx, "deliver", trace.WithSpanKind(trace.SpanKindClient), about) //nolint:spancheck // endSpan
}

func endSpan(span trace.Span, r send.Result) {
	if span == nil {
		return
	}
	if r.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", r.Status))
	}
	if !r.Delivered() {
		span.SetAttributes(attribute.String("error.type", r.Failure))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// createdAt is when a delivery was written. Lease returns it as a number, which every value of the column can be read as.
func createdAt(row webhooksdb.LeaseRow) time.Time {
	if math.IsInf(row.CreatedEpoch, 0) {
		return time.Time{}
	}
	return time.UnixMicro(int64(row.CreatedEpoch * 1e6))
}
