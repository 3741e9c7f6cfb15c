package read

import (
	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func registerMetrics(s *Snapshot) {
	register := promauto.With(s.cfg.Registerer)
	gauge := func(name, help string, value func() int) {
		opts := prometheus.GaugeOpts{Name: "examprep_catalog_" + name, Help: help}
		register.NewGaugeFunc(opts, func() float64 { return float64(value()) })
	}
	s.refreshed = register.NewGauge(prometheus.GaugeOpts{
		Name: "examprep_catalog_refreshed_timestamp_seconds",
		Help: "Unix time at which all revisions were last compared with those of PostgreSQL; 0 before the first comparison.",
	})
	s.failures = register.NewCounter(prometheus.CounterOpts{
		Name: "examprep_catalog_refresh_failures_total",
		Help: "Failed refreshes of the catalogue. After one, the pod serves its last copy and tries again.",
	})
	gauge("exams", "Served exams.", func() int { return len(s.List()) })
	gauge("unreadable_exams", "Exams whose published revision, papers or answer keys this pod cannot read from their rows; 0 if none. "+
		"Papers and answer keys count once a request has asked for them. Updated every 10 s.", func() int { return unreadableExams(s) })
	gauge("revisions", "Sum of the exams' revision numbers. Pods with different sums serve different revisions.", func() int {
		var sum int64
		if v := s.current.Load(); v != nil {
			for _, exam := range v.exams {
				sum += exam.state.Revision
			}
		}
		return int(sum)
	})
}

func registerCacheMetrics[V any](registerer prometheus.Registerer, label string, entries *otter.Cache[revisionID, sized[V]]) {
	register := promauto.With(registerer)
	for _, m := range []struct {
		name, help string
		counter    bool
		value      func() uint64
	}{
		{"bytes", "Approximate size of the cache in bytes.", false, entries.WeightedSize},
		{"max_bytes", "Maximum size of the cache in bytes.", false, entries.GetMaximum},
		{"hits_total", "Look-ups that found their entry.", true, func() uint64 { return entries.Stats().Hits }},
		{"misses_total", "Look-ups that read PostgreSQL, or waited for one that did.", true, func() uint64 { return entries.Stats().Misses }},
		{"evictions_total", "Entries that were removed to make room.", true, func() uint64 { return entries.Stats().Evictions }},
	} {
		opts := prometheus.Opts{Name: "examprep_catalog_cache_" + m.name, Help: m.help, ConstLabels: prometheus.Labels{"cache": label}}
		value := func() float64 { return float64(m.value()) }
		if m.counter {
			register.NewCounterFunc(prometheus.CounterOpts(opts), value)
		} else {
			register.NewGaugeFunc(prometheus.GaugeOpts(opts), value)
		}
	}
}

// unreadableExams returns the number of exams whose published revision, or a document of one of their papers, cannot be
// read.
func unreadableExams(s *Snapshot) int {
	unreadable := map[string]bool{}
	if v := s.current.Load(); v != nil {
		for key, exam := range v.exams {
			if exam.unreadable != "" {
				unreadable[key] = true
			}
		}
	}
	for id := range s.damaged.all() {
		unreadable[id.examKey] = true
	}
	return len(unreadable)
}
