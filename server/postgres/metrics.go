package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolMetrics reads a pool's own figures when it is asked: utilisation (connections), saturation (waits) and errors
// (acquisitions that were given up).
type poolMetrics struct {
	pool *pgxpool.Pool

	connections, most, opened                    *prometheus.Desc
	acquires, waits, waited, givenUp, acquireSum *prometheus.Desc
}

// RegisterPool registers metrics named examprep_postgres_pool_… about pool, which serves the process's work.
func RegisterPool(registerer prometheus.Registerer, pool *pgxpool.Pool) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("examprep_postgres_pool_"+name, help, labels, nil)
	}
	registerer.MustRegister(&poolMetrics{
		pool:        pool,
		connections: desc("connections", "Connections of the pool by state: acquired, idle, constructing.", "state"),
		most:        desc("max_connections", "How many connections the pool may have."),
		opened:      desc("opened_total", "Connections that were opened."),
		acquires:    desc("acquires_total", "Connections that were acquired."),
		acquireSum:  desc("acquire_seconds_total", "Time spent acquiring connections, opening them included."),
		waits:       desc("waits_total", "Acquisitions that found no idle connection, and waited for one or opened it."),
		waited:      desc("wait_seconds_total", "Time that such acquisitions took."),
		givenUp:     desc("acquires_given_up_total", "Acquisitions whose context ended first."),
	})
}

// Describe implements prometheus.Collector.
func (m *poolMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		m.connections, m.most, m.opened, m.acquires, m.acquireSum, m.waits, m.waited, m.givenUp,
	} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *poolMetrics) Collect(to chan<- prometheus.Metric) {
	stat := m.pool.Stat()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	counter := func(desc *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value)
	}
	gauge(m.connections, float64(stat.AcquiredConns()), "acquired")
	gauge(m.connections, float64(stat.IdleConns()), "idle")
	gauge(m.connections, float64(stat.ConstructingConns()), "constructing")
	gauge(m.most, float64(stat.MaxConns()))
	counter(m.opened, float64(stat.NewConnsCount()))
	counter(m.acquires, float64(stat.AcquireCount()))
	counter(m.acquireSum, stat.AcquireDuration().Seconds())
	counter(m.waits, float64(stat.EmptyAcquireCount()))
	counter(m.waited, stat.EmptyAcquireWaitTime().Seconds())
	counter(m.givenUp, float64(stat.CanceledAcquireCount()))
}
