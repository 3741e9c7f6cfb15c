package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"examprep.dev/server/telemetry"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
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

// TestScrapeReportsWhichStoreIsUp: a store has two seconds at each scrape, also one whose client returns nil too late.
func TestScrapeReportsWhichStoreIsUp(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	for name, c := range map[string]struct {
		ping func(context.Context) error
		up   float64
		took time.Duration
	}{
		"down":                  {func(context.Context) error { return errors.New("down") }, 0, 0},
		"up":                    {func(context.Context) error { return nil }, 1, 0},
		"up at the last moment": {func(context.Context) error { <-time.After(limit - 1); return nil }, 1, limit - 1},
		"late":                  {func(ctx context.Context) error { <-ctx.Done(); return nil }, 0, limit},
		"hung":                  {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 0, limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				telemetry.Checks{}.RegisterStore(registry, name, c.ping)
				start := time.Now()
				check.Equal(t, gathered(t, registry, "examprep_store_up")[name], c.up, "the store's gauge")
				check.Equal(t, time.Since(start), c.took, "time of the scrape")
			})
		})
	}
}

// TestReadyIsWhatReadyzSays: both give a check one second.
func TestReadyIsWhatReadyzSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ready telemetry.Ready
		want  float64
	}{
		"not yet": {func(context.Context) error { return errors.New("not yet") }, 0},
		"ready":   {func(context.Context) error { return nil }, 1},
		"hung":    {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				telemetry.Checks{}.RegisterReady(registry, c.ready)
				start := time.Now()
				check.Equal(t, gathered(t, registry, "examprep_ready")[""], c.want, "the gauge")
				if took := time.Since(start); took != 0 && took != time.Second {
					t.Errorf("the scrape took %s, want a second at most", took)
				}
			})
		})
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
