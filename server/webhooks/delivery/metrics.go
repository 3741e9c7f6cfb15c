package delivery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"examprep.dev/server/webhooks/delivery/send"
)

// Values of labels: the result of a successful attempt, and why an endpoint was disabled.
const (
	resultDelivered = "delivered"
	disabledGone    = "gone"
	disabledFailing = "failing"
)

// metrics are what dashboards, alerts and autoscaling read.
type metrics struct {
	attempts                                *prometheus.CounterVec
	duration, latency                       prometheus.Histogram
	inFlight, failing, oldestDue, outboxLag prometheus.Gauge
	fenced, lost, unreadableSecrets         prometheus.Counter
	dropped                                 prometheus.Counter
	backlog                                 *prometheus.GaugeVec
	disabled                                *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	auto := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		attempts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "examprep_webhook_tries_total", Help: "Delivery attempts by result: delivered, or the class of failure.",
		}, []string{"result"}),
		duration: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "examprep_webhook_try_seconds", Help: "Duration of a delivery attempt in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 11),
		}),
		latency: auto.NewHistogram(prometheus.HistogramOpts{
			Name:    "examprep_webhook_commit_to_receipt_seconds",
			Help:    "Seconds from the event's commit to the receiver's acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.002, 3, 14),
		}),
		inFlight: gauge("examprep_webhook_in_flight", "Delivery attempts in flight."),
		fenced:   counter("examprep_webhook_fenced_total", "Results refused because another worker held the lease."),
		lost: counter("examprep_webhook_lost_tries_total",
			"Attempts whose lease expired before a result was recorded. They do not count toward the retry limit."),
		unreadableSecrets: counter("examprep_webhook_unreadable_secrets_total",
			"Deliveries that were not attempted because the endpoint's signing secret does not decrypt with the worker's "+
				"encryption keys; repeated every 30 seconds. The log names the endpoint."),
		dropped: counter("examprep_webhook_results_dropped_total",
			"Deliveries that this worker could not lease or cancel, or whose result it could not save, because PostgreSQL refused the row or "+
				"another transaction locked it for too long. The log names the delivery."),
		backlog: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "examprep_webhook_backlog", Help: "Pending deliveries: due, or waiting for a retry; counted up to 100000.",
		}, []string{"state"}),
		failing: gauge("examprep_webhook_endpoints_failing",
			"Endpoints that have failed for more than half of the time after which they are disabled."),
		oldestDue: gauge("examprep_webhook_oldest_due_seconds",
			"Seconds that the oldest due delivery has waited for a worker, over all workers; 0 if there is none. Updated every "+
				"second. Scale by its maximum over the workers."),
		outboxLag: gauge("examprep_webhook_outbox_lag_seconds",
			"Seconds that the oldest due delivery to an endpoint that does not fail has waited for a worker, over all workers; "+
				"0 if there is none. Updated every second."),
		disabled: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "examprep_webhook_endpoints_disabled_total",
			Help: "Endpoints that this worker disabled: gone (the receiver returned 410) or failing (for too long).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{disabledGone, disabledFailing} {
		m.disabled.WithLabelValues(reason) // so that a rate over it is never empty
	}
	m.attempts.WithLabelValues(resultDelivered)
	return m
}

func (m *metrics) attempted(r send.Result, took, sinceCommit time.Duration) {
	label := r.Failure
	if r.Delivered() {
		label = resultDelivered
		m.latency.Observe(sinceCommit.Seconds())
	}
	m.attempts.WithLabelValues(label).Inc()
	m.duration.Observe(took.Seconds())
}
