package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
)

// metrics are rate, errors and duration of each operation. Labels come from the routes, so their number is fixed.
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
			Name: "examprep_http_request_duration_seconds", Help: "Time from reading a request's headers to finishing its response, without reading its body.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"operation", "method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "examprep_http_requests_in_flight", Help: "Requests that are being handled.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_http_connections_refused_total", Help: "Connections refused because the limit was reached.",
		}),
		held: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_http_refusals_held_total", Help: "Number of 401 and 429 responses without a valid key that were delayed.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "examprep_http_panics_total", Help: "Number of recovered handler panics.",
		}),
	}
	for _, code := range alertedCodes() {
		m.errors.WithLabelValues(code) // so that a rate over it is never empty
	}
	registerer.MustRegister(m.requests, m.errors, m.duration, m.inFlight, m.refused, m.held, m.panics,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "examprep_http_body_memory_bytes", Help: "Bytes of request bodies in memory.",
		}, func() float64 { return float64(bodies.held.Load()) }))
	return m
}

// alertedCodes are the errors that alerts ask for.
func alertedCodes() []string {
	return []string{apierror.CodeUnauthorized, apierror.CodeRateLimited, apierror.CodeInternal, apierror.CodeServiceUnavailable, apierror.CodeRequestTimeout}
}

// routeMetrics are the series of one operation, looked up once.
type routeMetrics struct {
	byClass  [6]prometheus.Counter // by status / 100
	duration prometheus.Observer
}

func (m *metrics) operation(route *endpoint.Route) *routeMetrics {
	o := &routeMetrics{duration: m.duration.WithLabelValues(route.Operation, route.Method, route.Path)}
	for class := 1; class < len(o.byClass); class++ {
		o.byClass[class] = m.requests.WithLabelValues(route.Operation, route.Method, route.Path, strconv.Itoa(class)+"xx")
	}
	return o
}

func (o *routeMetrics) count(status int, took time.Duration) {
	if class := status / 100; class > 0 && class < len(o.byClass) {
		o.byClass[class].Inc()
	}
	o.duration.Observe(took.Seconds())
}
