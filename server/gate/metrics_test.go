package gate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
)

func newRegistry(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	rdb, prefix := testkit.Redis(t)
	gatetest.New(t, testkit.Database(t), rdb, gatetest.Config{
		Prefix: prefix, Gate: gate.Config{Registerer: registry},
		Directory: directory.Config{Registerer: registry}, Limits: ratelimit.Config{Registerer: registry},
	})
	return registry
}

func TestEveryMetricHasAHelpAndALegalName(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(newRegistry(t))
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
}

// TestEveryMetricExistsFromTheStart, so that a rate over it is never empty.
func TestEveryMetricExistsFromTheStart(t *testing.T) {
	t.Parallel()
	registry := newRegistry(t)
	got := map[string]string{}
	for name, all := range testkit.Series(t, registry) {
		var labels []string
		for _, series := range all {
			for _, label := range series.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
		}
		got[name] = strings.Join(labels, " ")
	}
	want := map[string]string{
		"examprep_gate_decisions_total":              "outcome=allowed outcome=limited outcome=unauthorized outcome=unavailable",
		"examprep_gate_denial_cache_hits_total":      "",
		"examprep_gate_batch_keys":                   "",
		"examprep_gate_script_seconds":               "",
		"examprep_gate_degraded":                     "",
		"examprep_gate_queue_requests":               "store=redis",
		"examprep_keys_live":                         "",
		"examprep_keys_directory_bytes":              "",
		"examprep_keys_directory_limit_bytes":        "",
		"examprep_keys_changes_applied":              "",
		"examprep_keys_lease_valid":                  "",
		"examprep_keys_told":                         "",
		"examprep_keys_redis_numbers_replaced_total": "",
		"examprep_keys_unreadable_rows":              "",
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if labels, ok := got[name]; !ok || labels != want[name] {
			t.Errorf("%s: exists %v, with labels %q, want %q", name, ok, labels, want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: exists, but is not in the list", name)
		}
	}
}
