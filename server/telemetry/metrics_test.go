package telemetry_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"examprep.dev/server/telemetry"
	"examprep.dev/server/testkit"
)

// gathered returns the value of a gauge by the value of its only label; "" for one without.
func gathered(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, metric := range testkit.Series(t, registry)[name] {
		values[labelOf(metric)] = metric.GetGauge().GetValue()
	}
	return values
}

func labelOf(metric *dto.Metric) string {
	if labels := metric.GetLabel(); len(labels) == 1 {
		return labels[0].GetValue()
	}
	return ""
}

func TestScrapeReportsWhichStoreIsUp(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for name, ping := range map[string]func(context.Context) error{
		"down": func(context.Context) error { return errors.New("down") },
		"up":   func(context.Context) error { return nil },
		"late": func(ctx context.Context) error { <-ctx.Done(); return nil },
		"hung": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		telemetry.RegisterStore(registry, name, ping)
	}
	up := gathered(t, registry, "examprep_store_up")
	if want := map[string]float64{"down": 0, "up": 1, "late": 0, "hung": 0}; !maps.Equal(up, want) {
		t.Errorf("stores: %v, want %v", up, want)
	}
}

func TestReadyIsWhatReadyzSays(t *testing.T) {
	registry := prometheus.NewRegistry()
	var unready error
	telemetry.RegisterReady(registry, func(context.Context) error { return unready })
	for want, state := range map[float64]error{0: errors.New("not yet"), 1: nil} {
		unready = state
		if got := gathered(t, registry, "examprep_ready")[""]; got != want {
			t.Errorf("%v: %v, want %v", state, got, want)
		}
	}
}

func TestSamplersAreThoseOfTheSpecification(t *testing.T) {
	const draws = 4000
	for _, c := range []struct {
		sampler, argument string
		least, most       int
		wrong             bool
	}{
		{"", "", draws, draws, false},
		{"always_on", "", draws, draws, false},
		{"parentbased_always_off", "", 0, 0, false},
		{"traceidratio", "", draws, draws, false},
		{"parentbased_traceidratio", "0", 0, 0, false},
		{"parentbased_traceidratio", "0.5", draws * 4 / 10, draws * 6 / 10, false},
		{"traceidratio", "2", 0, 0, true},
		{"traceidratio", "half", 0, 0, true},
		{"jaeger_remote", "", 0, 0, true},
	} {
		t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
		t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.argument)
		tracing, err := telemetry.NewTracing(t.Context(), "examprep-test", "v0")
		if c.wrong {
			if err == nil {
				t.Errorf("%s %s is taken", c.sampler, c.argument)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		drawn := 0
		for range draws {
			if tracing.Sample() {
				drawn++
			}
		}
		if drawn < c.least || drawn > c.most {
			t.Errorf("%s %s: %d of %d", c.sampler, c.argument, drawn, draws)
		}
		_ = tracing.Shutdown(t.Context())
	}
}
