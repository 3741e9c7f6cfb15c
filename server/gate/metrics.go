package gate

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the gate's own; every one exists from the start, so that a rate over it is never empty.
type metrics struct {
	decisions  [Unauthorized + 1]prometheus.Counter
	denialHits prometheus.Counter
	batchSize  prometheus.Histogram
	script     prometheus.Histogram
	loads      map[string]prometheus.Counter
	breaker    prometheus.Gauge
	isDegraded prometheus.Gauge
	degraded   prometheus.Counter

	mu   sync.Mutex
	last time.Time // of tick
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "examprep_gate_decisions_total", Help: "Requests by the gate's decision.",
	}, []string{"outcome"})
	loads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "examprep_gate_loads_total", Help: "Keys read from PostgreSQL, by what came of it.",
	}, []string{"result"})
	m := &metrics{
		denialHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_gate_denial_cache_hits_total", Help: "Requests denied from the pod's memory, at no cost to Redis.",
		}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "examprep_gate_batch_keys", Help: "Keys per script call.", Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}),
		script: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "examprep_gate_script_seconds", Help: "Duration of a script call, as the pod sees it.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 13),
		}),
		breaker: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_gate_breaker_state", Help: "0 closed: Redis is used. 1 half open: it is being tried. 2 open: it failed a moment ago.",
		}),
		isDegraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_gate_degraded", Help: "1 while keys are checked in PostgreSQL because Redis is not to be believed.",
		}),
		degraded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_gate_degraded_seconds_total", Help: "Time spent in degraded mode.",
		}),
		loads: map[string]prometheus.Counter{},
	}
	for outcome := range m.decisions {
		m.decisions[outcome] = decisions.WithLabelValues(Outcome(outcome).String())
	}
	for _, result := range []string{"found", "revoked", "absent", "error"} {
		m.loads[result] = loads.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(decisions, loads, m.denialHits, m.batchSize, m.script, m.breaker, m.isDegraded, m.degraded)
	}
	return m
}

// watch tells of the queues before Redis and before PostgreSQL, as they are when somebody asks.
func (m *metrics) watch(registerer prometheus.Registerer, redis, postgres *batcher) {
	if registerer == nil {
		return
	}
	for store, b := range map[string]*batcher{"redis": redis, "postgres": postgres} {
		label := prometheus.Labels{"store": store}
		registerer.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "examprep_gate_queue_requests", Help: "Requests that wait for a batch to the store, or for its answer.", ConstLabels: label,
			}, func() float64 { waiting, _ := b.load(); return float64(waiting) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "examprep_gate_queue_max_requests", Help: "How many may wait; one more is refused.", ConstLabels: label,
			}, func() float64 { return float64(b.queue) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "examprep_gate_batches_free", Help: "Batches that could start at once; 0 while the store is busy.", ConstLabels: label,
			}, func() float64 { _, free := b.load(); return float64(free) }))
	}
}

func (m *metrics) decided(outcome Outcome) { m.decisions[outcome].Inc() }

func (m *metrics) called(keys int, took time.Duration) {
	m.batchSize.Observe(float64(keys))
	m.script.Observe(took.Seconds())
}

func (m *metrics) load(o outcome) {
	result := "found"
	switch {
	case o.err != nil:
		result = "error"
	case o.record == nil:
		result = "absent"
	case o.record.Revoked:
		result = "revoked"
	}
	m.loads[result].Inc()
}

func (m *metrics) setDegraded(yes bool) {
	var value float64
	if yes {
		value = 1
	}
	m.isDegraded.Set(value)
}

// tick adds the time since the last call to the degraded seconds, if trusted is false.
func (m *metrics) tick(now time.Time, trusted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !trusted && !m.last.IsZero() {
		m.degraded.Add(now.Sub(m.last).Seconds())
	}
	m.last = now
}
