package webhooks

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/postgres/webhooksdb"
)

// originsOf tells in which span the events of deliveries were recorded, of those that were in a recorded trace. A worker
// whose traces go nowhere does not ask. What cannot be found out is left out: deliveries come first.
func (w *Worker) originsOf(ctx context.Context, rows []webhooksdb.LeaseRow) map[uuid.UUID]trace.SpanContext {
	if w.cfg.Tracer == nil || len(rows) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.EventID
	}
	found, err := w.queries.Traceparents(ctx, ids)
	if err != nil {
		w.cfg.Logger.DebugContext(ctx, "the traces of events are not known", "error", err)
		return nil
	}
	origins := make(map[uuid.UUID]trace.SpanContext, len(found))
	alone := trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // or a carrier that says nothing would tell ctx's
	for _, event := range found {
		carrier := propagation.MapCarrier{"traceparent": event.Traceparent}
		if span := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(alone, carrier)); span.IsSampled() {
			origins[event.ID] = span
		}
	}
	return origins
}

// startTrySpan begins the span of a try in the trace of its event, after one of the time that the event waited: in the
// outbox, on the stream, in its receiver's lane. Their attributes name rows, never the receiver's address, in which tokens
// may stand. Without such a trace there is none.
func (w *Worker) startTrySpan(ctx context.Context, next leased, began time.Time) (context.Context, trace.Span) {
	if !next.origin.IsValid() {
		return ctx, nil
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, next.origin)
	about := trace.WithAttributes(attribute.String("examprep.delivery.id", next.row.ID.String()),
		attribute.String("examprep.event.id", next.row.EventID.String()), attribute.String("examprep.endpoint.id", next.row.EndpointID.String()),
		attribute.Int("examprep.delivery.attempt", int(next.row.Attempt)))
	if next.row.Attempt == 1 {
		_, waited := w.cfg.Tracer.Start(ctx, "outbox", trace.WithTimestamp(next.row.CreatedAt), about)
		waited.End(trace.WithTimestamp(began))
	}
	return w.cfg.Tracer.Start(ctx, "deliver", trace.WithSpanKind(trace.SpanKindClient), about) //nolint:spancheck // endTrySpan
}

func endTrySpan(span trace.Span, came outcome) {
	if span == nil {
		return
	}
	if came.status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", came.status))
	}
	if !came.delivered() {
		span.SetAttributes(attribute.String("error.type", came.failure))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
