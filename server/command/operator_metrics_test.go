package command

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"examprep.dev/server/telemetry"
)

func TestTheOperatorTellsEachSeriesOnce(t *testing.T) {
	families, err := prometheus.Gatherers{telemetry.NewRegistry(), prometheus.GathererFunc(controllerMetrics)}.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if !slices.ContainsFunc(families, func(family *dto.MetricFamily) bool { return family.GetName() == name }) {
			t.Errorf("nothing tells of %s", name)
		}
	}
}
