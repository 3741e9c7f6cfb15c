package testkit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metric returns the sum of the counters and gauges of a name that have these labels, among others. It is 0 if there is
// none.
func Metric(t testing.TB, gatherer prometheus.Gatherer, name string, labels map[string]string) (sum float64) {
	t.Helper()
	for _, series := range Series(t, gatherer)[name] {
		if hasLabels(series, labels) {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() // one is nil, and so 0
		}
	}
	return sum
}

// Series returns the series of all metrics, by name.
func Series(t testing.TB, gatherer prometheus.Gatherer) map[string][]*dto.Metric {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string][]*dto.Metric, len(families))
	for _, family := range families {
		series[family.GetName()] = family.GetMetric()
	}
	return series
}

func hasLabels(series *dto.Metric, labels map[string]string) bool {
	have := Labels(series)
	for name, value := range labels {
		if have[name] != value {
			return false
		}
	}
	return true
}

// Labels returns the labels of a series.
func Labels(series *dto.Metric) map[string]string {
	labels := make(map[string]string, len(series.GetLabel()))
	for _, pair := range series.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}
