package postgres_test

import (
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAStatementForSeveralRequestsIsASpanOfEachTrace runs statements for two requests with a recorded trace and one without.
func TestAStatementForSeveralRequestsIsASpanOfEachTrace(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
	pool, err := postgres.Open(t.Context(), testkit.DatabaseURL(t), postgres.Options{Traced: true})
	check.NoError(t, err)
	t.Cleanup(pool.Close)
	_, one := tracer.Start(t.Context(), "one")
	_, other := tracer.Start(t.Context(), "other")
	ctx := postgres.WithTraces(t.Context(), one, trace.SpanFromContext(t.Context()), other)
	_, err = pool.Exec(ctx, "-- name: Shared :exec\nSELECT 1")
	check.NoError(t, err)
	if _, err = pool.Exec(ctx, "-- name: Broken :exec\nSELECT 1/0"); err == nil {
		t.Error("a division by zero has a result")
	}
	for _, parent := range []trace.Span{one, other} {
		var names []string
		for _, s := range spans.GetSpans() {
			if s.Parent.SpanID() == parent.SpanContext().SpanID() && s.SpanContext.TraceID() == parent.SpanContext().TraceID() {
				names = append(names, s.Name+" "+s.Status.Code.String())
			}
		}
		want := []string{"acquire connection Unset", "Shared Unset", "acquire connection Unset", "Broken Error"}
		if !slices.Equal(names, want) {
			t.Errorf("the trace has %q, want %q", names, want)
		}
	}
}

func TestStatementsOfNoTraceHaveNoSpans(t *testing.T) {
	t.Parallel()
	ctx := postgres.WithTraces(t.Context(), trace.SpanFromContext(t.Context()))
	if ctx != t.Context() || postgres.Traceparent(ctx) != "" {
		t.Errorf("a trace %q", postgres.Traceparent(ctx))
	}
}
