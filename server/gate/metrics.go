package gate

import "github.com/prometheus/client_golang/prometheus"

// metrics are the gate's own. Each series exists from the start, so a rate over it is never empty.
type metrics struct {
	decisions  [Unauthorized + 1]prometheus.Counter
	deniedHits prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "examprep_gate_decisions_total", Help: "Requests by the gate's decision.",
	}, []string{"outcome"})
	m := &metrics{deniedHits: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "examprep_gate_denial_cache_hits_total", Help: "Requests denied from the pod's memory, at no cost to Redis.",
	})}
	for outcome := range m.decisions {
		m.decisions[outcome] = decisions.WithLabelValues(Outcome(outcome).String())
	}
	if registerer != nil {
		registerer.MustRegister(decisions, m.deniedHits)
	}
	return m
}

func (m *metrics) decided(outcome Outcome) { m.decisions[outcome].Inc() }
