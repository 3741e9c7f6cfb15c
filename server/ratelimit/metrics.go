package ratelimit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// registerMetrics makes the metrics, and registers them unless the configured Registerer is nil.
func (l *Limiter) registerMetrics() {
	register := promauto.With(l.cfg.Registerer)
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
	l.batchSize = register.NewHistogram(prometheus.HistogramOpts{
		Name: "examprep_gate_batch_keys", Help: "Keys per script call.", Buckets: prometheus.ExponentialBuckets(1, 2, 9),
	})
	l.scriptTime = register.NewHistogram(prometheus.HistogramOpts{
		Name: "examprep_gate_script_seconds", Help: "Duration of a script call, as the pod sees it.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 13),
	})
}
