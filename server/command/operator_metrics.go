package command

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// controllerMetrics returns the metrics of controller-runtime without those of the Go runtime and of the process. The
// command's own registry has these, and a scrape fails if two registries have the same series.
func controllerMetrics() ([]*dto.MetricFamily, error) {
	families, err := metrics.Registry.Gather()
	return slices.DeleteFunc(families, func(family *dto.MetricFamily) bool {
		return strings.HasPrefix(family.GetName(), "go_") || strings.HasPrefix(family.GetName(), "process_")
	}), err
}

var _ prometheus.GathererFunc = controllerMetrics
