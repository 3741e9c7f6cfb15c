package command

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// controllerMetrics are the figures of controller-runtime, less those of the Go runtime and of the process: every process
// has them in its own registry, and a series that two registries tell of is an error of each scrape.
func controllerMetrics() ([]*dto.MetricFamily, error) {
	families, err := metrics.Registry.Gather()
	return slices.DeleteFunc(families, func(family *dto.MetricFamily) bool {
		return strings.HasPrefix(family.GetName(), "go_") || strings.HasPrefix(family.GetName(), "process_")
	}), err
}

var _ prometheus.GathererFunc = controllerMetrics
