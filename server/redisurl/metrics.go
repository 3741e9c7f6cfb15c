package redisurl

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
)

// Client is a client of a process, with its name in metrics: gate or webhooks.
type Client struct {
	Name string
	redis.UniversalClient
}

// RegisterPools registers metrics named examprep_redis_pool_… about the connection pools of a process's clients.
func RegisterPools(registerer prometheus.Registerer, clients ...Client) {
	for _, client := range clients {
		registerPool(promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"client": client.Name}, registerer)), client)
	}
}

func registerPool(factory promauto.Factory, client Client) {
	type stats = *redis.PoolStats
	connections := func(state string, value func(stats) float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "examprep_redis_pool_connections", Help: "Connections by state: used, idle.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return value(client.PoolStats()) })
	}
	counter := func(name, help string, value func(stats) float64) {
		factory.NewCounterFunc(prometheus.CounterOpts{Name: "examprep_redis_pool_" + name, Help: help},
			func() float64 { return value(client.PoolStats()) })
	}
	connections("used", func(s stats) float64 { return max(float64(s.TotalConns)-float64(s.IdleConns), 0) })
	connections("idle", func(s stats) float64 { return float64(s.IdleConns) })
	counter("reused_total", "Idle connections that were taken.", func(s stats) float64 { return float64(s.Hits) })
	counter("misses_total", "Times that no connection was idle.", func(s stats) float64 { return float64(s.Misses) })
	counter("waits_total", "Waits for a connection of a full pool.", func(s stats) float64 { return float64(s.WaitCount) })
	counter("wait_seconds_total", "Time of such waits.", func(s stats) float64 { return float64(s.WaitDurationNs) / 1e9 })
	counter("timeouts_total", "Waits that timed out.", func(s stats) float64 { return float64(s.Timeouts) })
	counter("stale_total", "Connections that were broken or too old.", func(s stats) float64 { return float64(s.StaleConns) })
}
