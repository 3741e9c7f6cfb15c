package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// statementTracer makes a span for each statement that is part of a recorded trace, and for each wait for a connection.
// The span has the statement's name, but not its text or parameters, which include hashes of API keys and learner IDs. For
// a statement outside a recorded trace it costs one lookup in the context.
type statementTracer struct{}

var (
	_ pgx.QueryTracer       = statementTracer{}
	_ pgx.BatchTracer       = statementTracer{}
	_ pgx.CopyFromTracer    = statementTracer{}
	_ pgxpool.AcquireTracer = statementTracer{}
)

// TraceQueryStart implements pgx.QueryTracer.
func (statementTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return startStatement(ctx, statementName(data.SQL))
}

// TraceQueryEnd implements pgx.QueryTracer.
func (statementTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	endStatement(ctx, data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (statementTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return startStatement(ctx, "BATCH")
}

// TraceBatchQuery implements pgx.BatchTracer.
func (statementTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (statementTracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	endStatement(ctx, data.Err)
}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (statementTracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	return startStatement(ctx, "COPY "+strings.Join(data.TableName, "."))
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (statementTracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromEndData) {
	endStatement(ctx, data.Err)
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (statementTracer) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return startStatement(ctx, "acquire connection")
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (statementTracer) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	endStatement(ctx, data.Err)
}

type (
	// parentSpans is the key of the spans that a statement for several requests is part of.
	parentSpans struct{}
	// statementSpans is the key of a statement's own spans.
	statementSpans struct{}
)

// WithTraces returns a context for statements that serve several requests: the trace of each span that is recorded gets a span
// of each statement.
func WithTraces(ctx context.Context, spans ...trace.Span) context.Context {
	var recorded []trace.Span
	for _, span := range spans {
		if span.IsRecording() {
			recorded = append(recorded, span)
		}
	}
	if len(recorded) == 0 {
		return ctx
	}
	return context.WithValue(trace.ContextWithSpan(ctx, recorded[0]), parentSpans{}, recorded)
}

// startStatement adds a statement's spans to ctx if the statement is part of a recorded trace. Most are not.
func startStatement(ctx context.Context, name string) context.Context {
	first := trace.SpanFromContext(ctx)
	if !first.IsRecording() {
		return ctx
	}
	parents, shared := ctx.Value(parentSpans{}).([]trace.Span)
	if !shared {
		parents = []trace.Span{first}
	}
	spans := make([]trace.Span, len(parents))
	for i, parent := range parents {
		tracer := parent.TracerProvider().Tracer("examprep.dev/server/postgres")
		_, spans[i] = tracer.Start(trace.ContextWithSpan(ctx, parent), name, trace.WithSpanKind(trace.SpanKindClient), //nolint:spancheck // endStatement
			trace.WithAttributes(attribute.String("db.system.name", "postgresql"), attribute.String("db.operation.name", name)))
	}
	return context.WithValue(ctx, statementSpans{}, spans)
}

// endStatement ends the spans that startStatement added to ctx, if it did. It records only the SQLSTATE of an error, since the
// text can quote values.
func endStatement(ctx context.Context, err error) {
	spans, _ := ctx.Value(statementSpans{}).([]trace.Span)
	for _, span := range spans {
		if reported, ok := errors.AsType[*pgconn.PgError](err); ok {
			span.SetAttributes(attribute.String("db.response.status_code", reported.Code))
		}
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// maxStatementName bounds the name of a statement that sqlc did not name.
const maxStatementName = 32

// statementName returns sqlc's name of the statement, or else its first word.
func statementName(sql string) string {
	if named, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(named, " ")
		return name
	}
	first, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToUpper(first[:min(len(first), maxStatementName)])
}

// Traceparent returns the W3C header traceparent for the trace of ctx, or "" if the trace is not recorded. Webhook events are
// stored with it, so that their deliveries join the trace.
func Traceparent(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsSampled() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags()&trace.FlagsSampled)
}
