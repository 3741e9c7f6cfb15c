package catalog

import (
	"slices"
	"time"

	"github.com/maypok86/otter/v2/stats"
	"github.com/prometheus/client_golang/prometheus"
)

// snapshotMetrics tell how current a Snapshot is. What its view and its caches know is read from them when it is asked for.
type snapshotMetrics struct {
	refreshed prometheus.Gauge
	failures  prometheus.Counter
}

func newSnapshotMetrics(s *Snapshot) *snapshotMetrics {
	m := &snapshotMetrics{
		refreshed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_catalog_refreshed_timestamp_seconds",
			Help: "When all revisions were last compared with those of PostgreSQL; 0: never yet.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_catalog_refresh_failures_total", Help: "Refreshes of the catalogue that failed; what is known goes on being served.",
		}),
	}
	if s.cfg.Registerer != nil {
		s.cfg.Registerer.MustRegister(m.refreshed, m.failures, &snapshotFigures{
			snapshot: s,
			exams:    prometheus.NewDesc("examprep_catalog_exams", "Exams that are served.", nil, nil),
			unreadable: prometheus.NewDesc("examprep_catalog_unreadable_exams",
				"Exams whose published revision, papers or answer keys this pod cannot read from their rows; 0 if none. "+
					"Papers and answer keys count once a request has asked for them. Updated every 10 s.", nil, nil),
			revisions: prometheus.NewDesc("examprep_catalog_revisions",
				"The sum of the exams' revision numbers: it is the same on every pod, unless one lags behind.", nil, nil),
			bytes:     cacheDesc("bytes", "Bytes that the cache holds, roughly."),
			most:      cacheDesc("max_bytes", "Bytes that the cache may hold."),
			hits:      cacheDesc("hits_total", "Look-ups that found what they looked for."),
			misses:    cacheDesc("misses_total", "Look-ups that went on to PostgreSQL, or waited for one that had."),
			evictions: cacheDesc("evictions_total", "Entries that made room for others."),
		})
	}
	return m
}

func cacheDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("examprep_catalog_cache_"+name, help, []string{"cache"}, nil)
}

// compared notes what came of a refresh; whole says that all revisions were looked at.
func (m *snapshotMetrics) compared(whole bool, now time.Time, err error) {
	switch {
	case err != nil:
		m.failures.Inc()
	case whole:
		m.refreshed.Set(float64(now.UnixMilli()) / 1000)
	}
}

type snapshotFigures struct {
	snapshot                             *Snapshot
	exams, unreadable, revisions         *prometheus.Desc
	bytes, most, hits, misses, evictions *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (f *snapshotFigures) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{f.exams, f.unreadable, f.revisions, f.bytes, f.most, f.hits, f.misses, f.evictions} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (f *snapshotFigures) Collect(to chan<- prometheus.Metric) {
	var exams, revisions float64
	if v := f.snapshot.current.Load(); v != nil {
		exams = float64(len(v.list))
		for _, exam := range v.exams {
			revisions += float64(exam.state.revision)
		}
	}
	to <- prometheus.MustNewConstMetric(f.exams, prometheus.GaugeValue, exams)
	to <- prometheus.MustNewConstMetric(f.unreadable, prometheus.GaugeValue, float64(f.snapshot.unreadableExams()))
	to <- prometheus.MustNewConstMetric(f.revisions, prometheus.GaugeValue, revisions)
	cache := func(name string, size uint64, most uint64, counts stats.Stats) {
		to <- prometheus.MustNewConstMetric(f.bytes, prometheus.GaugeValue, float64(size), name)
		to <- prometheus.MustNewConstMetric(f.most, prometheus.GaugeValue, float64(most), name)
		to <- prometheus.MustNewConstMetric(f.hits, prometheus.CounterValue, float64(counts.Hits), name)
		to <- prometheus.MustNewConstMetric(f.misses, prometheus.CounterValue, float64(counts.Misses), name)
		to <- prometheus.MustNewConstMetric(f.evictions, prometheus.CounterValue, float64(counts.Evictions), name)
	}
	papers, keys := f.snapshot.papers.entries, f.snapshot.keys.entries
	cache("papers", papers.WeightedSize(), f.snapshot.cfg.PaperCacheBytes, papers.Stats())
	cache("answer_keys", keys.WeightedSize(), f.snapshot.cfg.KeyCacheBytes, keys.Stats())
}

// unreadableExams counts the exams whose published revision, or a document of one of their papers, cannot be read.
func (s *Snapshot) unreadableExams() int {
	unreadable := map[string]struct{}{}
	if v := s.current.Load(); v != nil {
		for key, exam := range v.exams {
			if exam.unreadable != "" {
				unreadable[key] = struct{}{}
			}
		}
	}
	for _, id := range slices.Concat(s.papers.unreadable(), s.keys.unreadable(), s.opened.unreadable()) {
		unreadable[id.examKey] = struct{}{}
	}
	return len(unreadable)
}
