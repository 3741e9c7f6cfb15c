package httpapi

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi/endpoint"
)

const spanKey = "service_00000000000000000000000000000000000000005176df86"

func tracedRequest(t *testing.T, sampler sdktrace.Sampler) tracetest.SpanStubs {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sampler))
	server := New(Config{}, Deps{
		Gate: openGate{}, Catalog: oneExam{document: read.Document{JSON: make([]byte, 4096), ETag: `"0123456789abcdef"`}},
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Tracer: provider.Tracer("test"),
	})
	var request fasthttp.Request
	request.SetRequestURI("http://localhost/v1/exam-prep/xx-sample/overview")
	request.Header.Set("Authorization", "Bearer "+spanKey)
	var ctx fasthttp.RequestCtx
	ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
	server.http.Handler(&ctx)
	if status := ctx.Response.StatusCode(); status != fasthttp.StatusOK {
		t.Fatalf("status %d", status)
	}
	return spans.GetSpans()
}

func TestASampledRequestTellsTheGatesDecisionAndNotTheKey(t *testing.T) {
	t.Parallel()
	spans := tracedRequest(t, sdktrace.AlwaysSample())
	if len(spans) != 2 || spans[0].Name != "gate" || spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() {
		t.Fatalf("spans: %+v", spans)
	}
	attributes := map[string]string{}
	for _, a := range spans[0].Attributes {
		attributes[string(a.Key)] = a.Value.String()
	}
	if attributes["examprep.gate.outcome"] != "allowed" {
		t.Errorf("attributes: %v", attributes)
	}
	if text := fmt.Sprintf("%+v", spans); strings.Contains(text, spanKey[len("service_"):]) {
		t.Errorf("the key stands in a span: %s", text)
	}
}

func TestARequestThatIsNotSampledMakesNoSpan(t *testing.T) {
	t.Parallel()
	if spans := tracedRequest(t, sdktrace.NeverSample()); len(spans) != 0 {
		t.Errorf("spans: %+v", spans)
	}
}

func TestARequestThatIsNotDrawnCostsNothing(t *testing.T) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	s := tracing{tracer: provider.Tracer("test"), draw: func() bool { return false }}
	var http fasthttp.RequestCtx
	http.Request.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r := &exchange{Request: endpoint.Request{HTTP: &http}}
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := s.start(t.Context(), &endpoint.Route{Operation: "getExamOverview"}, r)
		if span != nil || trace.SpanFromContext(ctx).IsRecording() {
			t.Error("there is a span")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheGatesSpanCostsNothingWhereItIsNotSampled(t *testing.T) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	s := tracing{tracer: provider.Tracer("test")}
	ctx, unsampled := s.tracer.Start(t.Context(), "request")
	defer unsampled.End()
	if n := testing.AllocsPerRun(100, func() {
		if _, span := s.startGate(ctx); span != nil {
			t.Error("there is a span")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
