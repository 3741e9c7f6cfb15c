package redisurl

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Client is a client of a process, and what it is for: gate, webhooks and so on.
type Client struct {
	Name string
	redis.UniversalClient
}

// poolMetrics reads the clients' own figures when it is asked.
type poolMetrics struct {
	clients []Client

	connections, reused, opened, waits, waited, timeouts, stale *prometheus.Desc
}

// RegisterPools registers metrics named examprep_redis_pool_… about the connection pools of a process's clients.
func RegisterPools(registerer prometheus.Registerer, clients ...Client) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("examprep_redis_pool_"+name, help, append([]string{"client"}, labels...), nil)
	}
	registerer.MustRegister(&poolMetrics{
		clients:     clients,
		connections: desc("connections", "Connections by state: used, idle.", "state"),
		reused:      desc("reused_total", "Times that an idle connection was taken."),
		opened:      desc("misses_total", "Times that none was idle."),
		waits:       desc("waits_total", "Times that a connection was waited for, because there were as many as there may be."),
		waited:      desc("wait_seconds_total", "Time of such waits."),
		timeouts:    desc("timeouts_total", "Waits that were given up."),
		stale:       desc("stale_total", "Connections that were found broken or too old."),
	})
}

// Describe implements prometheus.Collector.
func (m *poolMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.connections, m.reused, m.opened, m.waits, m.waited, m.timeouts, m.stale} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *poolMetrics) Collect(to chan<- prometheus.Metric) {
	for _, client := range m.clients {
		stats := client.PoolStats()
		counter := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, client.Name)
		}
		used := float64(stats.TotalConns) - float64(stats.IdleConns)
		to <- prometheus.MustNewConstMetric(m.connections, prometheus.GaugeValue, max(used, 0), client.Name, "used")
		to <- prometheus.MustNewConstMetric(m.connections, prometheus.GaugeValue, float64(stats.IdleConns), client.Name, "idle")
		counter(m.reused, float64(stats.Hits))
		counter(m.opened, float64(stats.Misses))
		counter(m.waits, float64(stats.WaitCount))
		counter(m.waited, float64(stats.WaitDurationNs)/1e9)
		counter(m.timeouts, float64(stats.Timeouts))
		counter(m.stale, float64(stats.StaleConns))
	}
}
