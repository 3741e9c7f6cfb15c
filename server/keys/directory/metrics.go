package directory

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// registerMetrics registers the metrics of d, read at each scrape, unless registerer is nil.
func registerMetrics(registerer prometheus.Registerer, d *Directory) {
	gauge := func(name, help string, value func() float64) {
		promauto.With(registerer).NewGaugeFunc(prometheus.GaugeOpts{Name: "examprep_keys_" + name, Help: help}, value)
	}
	gauge("live", "Keys in the pod's directory.", func() float64 {
		entries, _ := d.contents.Load().keys.size()
		return float64(entries)
	})
	gauge("directory_bytes", "Memory of the pod's directory of keys, in bytes.", func() float64 {
		_, bytes := d.contents.Load().keys.size()
		return float64(bytes)
	})
	gauge("directory_limit_bytes", "Limit of the pod's directory of keys, in bytes.", func() float64 { return float64(d.cfg.Budget) })
	gauge("changes_applied", "Number of the newest change that the pod has applied, in microseconds since 1970.", func() float64 {
		return float64(d.contents.Load().number.Load())
	})
	gauge("told", "Number of the newest change that Redis has confirmed to the pod, 0 for none.", func() float64 {
		return float64(d.contents.Load().told.Load())
	})
	promauto.With(registerer).NewCounterFunc(prometheus.CounterOpts{
		Name: "examprep_keys_redis_numbers_replaced_total",
		Help: "Numbers in Redis that the pod ignored and replaced, since no change of keys can have had them.",
	}, func() float64 { return float64(d.ignored.Load()) })
	gauge("lease_valid", "1 while the pod has a lease on its directory of keys, else 0.", func() float64 {
		if d.Leased() {
			return 1
		}
		return 0
	})
	gauge("unreadable_rows", "Rows of keys and tiers that the pod cannot read; these keys are refused.", func() float64 {
		c := d.contents.Load()
		return float64(c.unreadable.Load() + int64(c.tiers.Load().Unreadable))
	})
}
