package ratelimit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct{ batchSize, script prometheus.Histogram }

// newMetrics registers the metrics of l, unless registerer is nil.
func newMetrics(registerer prometheus.Registerer, l *Limiter) *metrics {
	register := promauto.With(registerer)
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "examprep_gate_degraded", Help: "1 while Redis is not used, and each pod grants its share of the rate limits.",
	}, func() float64 {
		if l.Degraded() {
			return 1
		}
		return 0
	})
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "examprep_gate_queue_requests", Help: "Requests that wait for a batch to the store.",
		ConstLabels: prometheus.Labels{"store": "redis"},
	}, func() float64 { waiting, _ := l.batches.Load(); return float64(waiting) })
	return &metrics{
		batchSize: register.NewHistogram(prometheus.HistogramOpts{
			Name: "examprep_gate_batch_keys", Help: "Keys per script call.", Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}),
		script: register.NewHistogram(prometheus.HistogramOpts{
			Name: "examprep_gate_script_seconds", Help: "Duration of a script call, as the pod sees it.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 13),
		}),
	}
}
