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
	gauge("unreadable_exams",
		"Exams whose published revision, papers or answer keys this pod cannot read from their rows; 0 if none. "+
			"Papers and answer keys count once a request has asked for them. Updated every 10 s.", func() int { return unreadableExams(s) })
	gauge("revisions", "Sum of the exams' revision numbers. Pods with different sums serve different revisions.", func() (sum int) {
		for _, exam := range s.current.Load().exams {
			sum += int(exam.state.Revision)
		}
		return sum
	})
}

func registerCacheMetrics[V any](registerer prometheus.Registerer, label string, entries *otter.Cache[revisionID, sized[V]]) {
	register := promauto.With(registerer)
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: "examprep_catalog_cache_" + name, Help: help, ConstLabels: prometheus.Labels{"cache": label}}
	}
	gauge := func(name, help string, value func() uint64) {
		register.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return float64(value()) })
	}
	counter := func(name, help string, value func() uint64) {
		register.NewCounterFunc(prometheus.CounterOpts(opts(name, help)), func() float64 { return float64(value()) })
	}
	gauge("bytes", "Approximate size of the cache in bytes.", entries.WeightedSize)
	gauge("max_bytes", "Maximum size of the cache in bytes.", entries.GetMaximum)
	counter("hits_total", "Look-ups that found their entry.", func() uint64 { return entries.Stats().Hits })
	counter("misses_total", "Look-ups that read PostgreSQL, or waited for one that did.",
		func() uint64 { return entries.Stats().Misses })
	counter("evictions_total", "Entries that were removed to make room.", func() uint64 { return entries.Stats().Evictions })
}
