package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolMetric is one figure of a pool.
type poolMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*pgxpool.Stat) float64
}

// poolMetrics reads its pool's figures at each scrape: utilisation (connections), saturation (waits) and errors (acquisitions
// that were given up).
type poolMetrics struct {
	pool    *pgxpool.Pool
	metrics []poolMetric
}

// RegisterPool registers metrics named examprep_postgres_pool_… about pool, which serves the process's work.
func RegisterPool(registerer prometheus.Registerer, pool *pgxpool.Pool) {
	m := &poolMetrics{pool: pool}
	add := func(kind prometheus.ValueType, name, help string, labels prometheus.Labels, value func(*pgxpool.Stat) float64) {
		m.metrics = append(m.metrics, poolMetric{prometheus.NewDesc("examprep_postgres_pool_"+name, help, nil, labels), kind, value})
	}
	for state, count := range map[string]func(*pgxpool.Stat) int32{
		"acquired": (*pgxpool.Stat).AcquiredConns, "idle": (*pgxpool.Stat).IdleConns, "constructing": (*pgxpool.Stat).ConstructingConns,
	} {
		add(prometheus.GaugeValue, "connections", "Connections of the pool by state: acquired, idle, constructing.", prometheus.Labels{"state": state},
			func(s *pgxpool.Stat) float64 { return float64(count(s)) })
	}
	add(prometheus.GaugeValue, "max_connections", "Maximum connections of the pool.", nil,
		func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) })
	add(prometheus.CounterValue, "opened_total", "Connections opened.", nil,
		func(s *pgxpool.Stat) float64 { return float64(s.NewConnsCount()) })
	add(prometheus.CounterValue, "acquires_total", "Connections acquired.", nil,
		func(s *pgxpool.Stat) float64 { return float64(s.AcquireCount()) })
	add(prometheus.CounterValue, "acquire_seconds_total", "Seconds spent acquiring connections, opening them included.", nil,
		func(s *pgxpool.Stat) float64 { return s.AcquireDuration().Seconds() })
	add(prometheus.CounterValue, "waits_total", "Acquisitions that found no idle connection, and waited for one or opened it.", nil,
		func(s *pgxpool.Stat) float64 { return float64(s.EmptyAcquireCount()) })
	add(prometheus.CounterValue, "wait_seconds_total", "Seconds that such acquisitions took.", nil,
		func(s *pgxpool.Stat) float64 { return s.EmptyAcquireWaitTime().Seconds() })
	add(prometheus.CounterValue, "acquires_given_up_total", "Acquisitions whose context ended first.", nil,
		func(s *pgxpool.Stat) float64 { return float64(s.CanceledAcquireCount()) })
	registerer.MustRegister(m)
}

// Describe implements prometheus.Collector.
func (m *poolMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, metric := range m.metrics {
		to <- metric.desc
	}
}

// Collect implements prometheus.Collector.
func (m *poolMetrics) Collect(to chan<- prometheus.Metric) {
	stat := m.pool.Stat()
	for _, metric := range m.metrics {
		to <- prometheus.MustNewConstMetric(metric.desc, metric.kind, metric.value(stat))
	}
}
