package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracing is a tracer provider and the functions that sample with it and end it.
type Tracing struct {
	// Provider makes spans; it is a no-op unless Enabled.
	Provider trace.TracerProvider
	// Enabled reports whether spans are exported. If not, a hot path can make none.
	Enabled bool
	// Sample reports whether to record a trace that starts here, as OTEL_TRACES_SAMPLER configures. It generates one random
	// number, which is all that a request without a recorded trace costs.
	Sample func() bool
	// Shutdown exports the buffered spans and ends the exporter.
	Shutdown func(context.Context) error
}

// Tracer returns a tracer, or nil if spans are not exported: a hot path then makes none.
func (t *Tracing) Tracer() trace.Tracer {
	if !t.Enabled {
		return nil
	}
	return t.Provider.Tracer("examprep.dev/server")
}

// NewTracing sets up tracing from the standard OTEL_ variables. Without OTEL_EXPORTER_OTLP_ENDPOINT (or
// …_TRACES_ENDPOINT) and without OTEL_TRACES_EXPORTER=otlp there is none; OTEL_SDK_DISABLED=true and
// OTEL_TRACES_EXPORTER=none turn it off. service names the process (examprep-api …) unless OTEL_SERVICE_NAME does.
// OTEL_TRACES_SAMPLER (always_on, always_off, traceidratio, each also with parentbased_ before it; parentbased_always_on)
// and OTEL_TRACES_SAMPLER_ARG decide which traces are recorded; headers, TLS, limits and attributes are read by the
// OpenTelemetry SDK itself.
func NewTracing(ctx context.Context, service, version string) (*Tracing, error) {
	enabled, err := tracingEnabled()
	if err != nil {
		return nil, err
	}
	if !enabled {
		return &Tracing{Sample: func() bool { return false }, Provider: noop.NewTracerProvider(), Shutdown: func(context.Context) error { return nil }}, nil
	}
	sample, err := newSampler(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return nil, err
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		// Sample was called for a trace that starts here; the parent decides for others.
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithResource(newResource(ctx, service, version)),
	)
	return &Tracing{Provider: provider, Enabled: true, Sample: sample, Shutdown: provider.Shutdown}, nil
}

func tracingEnabled() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is neither otlp nor none", exporter)
	}
}

// newExporter uses the protocol of the variables; http/protobuf is the specification's default.
func newExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	var exporter *otlptrace.Exporter
	var err error
	switch protocol {
	case "", "http/protobuf":
		exporter, err = otlptracehttp.New(ctx)
	case "grpc":
		exporter, err = otlptracegrpc.New(ctx)
	default:
		err = errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is neither grpc nor http/protobuf")
	}
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	return exporter, nil
}

// newResource describes the process. The OTEL_ variables win over service and version.
func newResource(ctx context.Context, service, version string) *resource.Resource {
	// A detector that fails leaves its attributes out; the others are still useful.
	r, _ := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithFromEnv(),
	)
	return r
}
