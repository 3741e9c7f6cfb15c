package gate

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/testkit"
)

// TestEveryMetricIsThereFromTheStart, so that a rate over it is never empty.
func TestEveryMetricIsThereFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	newMetrics(registry).watch(registry, &batcher{}, &batcher{})
	there := map[string][]string{}
	for name, all := range testkit.Series(t, registry) {
		there[name] = []string{}
		for _, series := range all {
			for _, label := range series.GetLabel() {
				there[name] = append(there[name], label.GetValue())
			}
		}
	}
	for name, labels := range map[string][]string{
		"examprep_gate_decisions_total":         {"allowed", "limited", "unauthorized", "unavailable"},
		"examprep_gate_loads_total":             {"absent", "error", "found", "revoked"},
		"examprep_gate_denial_cache_hits_total": {},
		"examprep_gate_batch_keys":              {},
		"examprep_gate_script_seconds":          {},
		"examprep_gate_breaker_state":           {},
		"examprep_gate_degraded":                {},
		"examprep_gate_degraded_seconds_total":  {},
		"examprep_gate_queue_requests":          {"postgres", "redis"},
		"examprep_gate_queue_max_requests":      {"postgres", "redis"},
		"examprep_gate_batches_free":            {"postgres", "redis"},
	} {
		if got, ok := there[name]; !ok || !slices.Equal(got, labels) {
			t.Errorf("%s: there %v, with labels %v, want %v", name, ok, got, labels)
		}
	}
}
