package command

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/telemetry"
	"examprep.dev/server/testkit"
)

func TestTheOperatorTellsEachSeriesOnce(t *testing.T) {
	series := testkit.Series(t, prometheus.Gatherers{telemetry.NewRegistry(), prometheus.GathererFunc(controllerMetrics)})
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if _, ok := series[name]; !ok {
			t.Errorf("nothing tells of %s", name)
		}
	}
}
