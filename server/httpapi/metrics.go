package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are rate, errors and duration of each operation. Labels come from routes.go alone, so their number is fixed.
type metrics struct {
	requests *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  prometheus.Counter
	held     prometheus.Counter
	panics   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, bodies *bodyMemory) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "examprep_http_requests_total", Help: "Answered requests by operation, its method and route, and class of status.",
		}, []string{"operation", "method", "route", "status"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "examprep_http_errors_total", Help: "Requests that reached an operation and were refused or failed, by the code in their answer.",
		}, []string{"code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "examprep_http_request_duration_seconds", Help: "Time from a request's being read to its being answered.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"operation", "method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_http_requests_in_flight", Help: "Requests that are being handled.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_http_connections_refused_total", Help: "Connections refused because the limit was reached.",
		}),
		held: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_http_refusals_held_total", Help: "Refusals without a valid key that waited for their turn in a flood of them.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_http_panics_total", Help: "Handlers that panicked; each is a defect.",
		}),
	}
	for _, code := range watchedCodes() {
		m.errors.WithLabelValues(code) // so that a rate over it is never empty
	}
	registerer.MustRegister(m.requests, m.errors, m.duration, m.inFlight, m.refused, m.held, m.panics,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "examprep_http_body_memory_bytes", Help: "Memory that request bodies are held in.",
		}, func() float64 { return float64(bodies.held.Load()) }))
	return m
}

// watchedCodes are the errors that alerts ask for.
func watchedCodes() []string {
	return []string{codeUnauthorized, codeRateLimited, codeInternal, codeServiceUnavailable, codeRequestTimeout}
}

// operationMetrics are the series of one operation, looked up once.
type operationMetrics struct {
	byClass  [6]prometheus.Counter // by status / 100
	duration prometheus.Observer
}

func (m *metrics) operation(route *route) *operationMetrics {
	o := &operationMetrics{duration: m.duration.WithLabelValues(route.operation, route.method, route.path)}
	for class := 1; class < len(o.byClass); class++ {
		o.byClass[class] = m.requests.WithLabelValues(route.operation, route.method, route.path, strconv.Itoa(class)+"xx")
	}
	return o
}

func (o *operationMetrics) count(status int, took time.Duration) {
	if class := status / 100; class > 0 && class < len(o.byClass) {
		o.byClass[class].Inc()
	}
	o.duration.Observe(took.Seconds())
}
