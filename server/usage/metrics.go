package usage

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// backlogValid is how long the gauges report a measured backlog. A pod that cannot reach the database does not know what
// other pods have added since.
const backlogValid = time.Minute

type metrics struct {
	flushFailures, rollUpFailures, lost prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		flushFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_key_usage_flush_failures_total", Help: "Failed writes of counted requests. The counts are kept.",
		}),
		rollUpFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_key_usage_roll_up_failures_total", Help: "Failed roll-ups of key_usage_batches. The batches are kept.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_key_usage_lost_total",
			Help: "Requests missing from the usage of keys, because PostgreSQL was unreachable for too long.",
		}),
	}
}

func (m *Meter) register(registerer prometheus.Registerer) {
	gauge := func(name, help string, value func(*backlog) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help + "; NaN if this pod has not checked for a minute.",
		}, func() float64 {
			last := m.backlog.Load()
			if last == nil || m.now().Sub(last.at) > backlogValid {
				return math.NaN()
			}
			return value(last)
		})
	}
	registerer.MustRegister(m.metrics.flushFailures, m.metrics.rollUpFailures, m.metrics.lost,
		gauge("examprep_key_usage_oldest_batch_age_seconds", "Age in seconds of the oldest row of key_usage_batches; 0 if there is none",
			func(b *backlog) float64 { return b.oldest.Seconds() }),
		gauge("examprep_key_usage_skipped_batches", "Rows of key_usage_batches that cannot be added to key_usage",
			func(b *backlog) float64 { return float64(b.skipped) }))
}
