package retention

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show whether partitions are maintained.
type metrics struct {
	partitions, ahead, success prometheus.Gauge
	rows, strays               *prometheus.GaugeVec
	errors                     prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	auto := promauto.With(registerer)
	return &metrics{
		partitions: auto.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_partitions", Help: "Partitions of events, deliveries and attempts.",
		}),
		ahead: auto.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_partitions_ahead",
			Help: "Weekly partitions that exist after the current one; -1 if the current one is missing.",
		}),
		rows: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "examprep_webhook_rows", Help: "Rows by table, live or dead (waiting for vacuum), as PostgreSQL estimates them.",
		}, []string{"relation", "state"}),
		strays: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "examprep_webhook_default_partition_rows",
			Help: "Rows in the default partition of a table, which is empty unless a weekly partition is missing; counted up to 10000.",
		}, []string{"relation"}),
		success: auto.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_webhook_retention_success_timestamp_seconds",
			Help: "Unix time of this worker's last maintenance of all partitions without an error; 0 before the first.",
		}),
		errors: auto.NewCounter(prometheus.CounterOpts{
			Name: "examprep_webhook_retention_errors_total",
			Help: "Runs that did not maintain all partitions; repeated after a minute.",
		}),
	}
}
