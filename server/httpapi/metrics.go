package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

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
	f := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "examprep_http_body_memory_bytes", Help: "Bytes of bodies in memory: of requests with their reading, and of responses of more than 4 KiB that are made for one request and not yet sent.",
	}, func() float64 { return float64(bodies.bytes()) })
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "examprep_http_requests_total", Help: "Answered requests by operation, its method and route, and class of status.",
		}, []string{"operation", "method", "route", "status"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "examprep_http_errors_total", Help: "Requests that reached an operation and were refused or failed, by operation and the code in the response.",
		}, []string{"operation", "code"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "examprep_http_request_duration_seconds", Help: "Time from reading a request's headers to finishing its response, without reading its body.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"operation", "method", "route"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{Name: "examprep_http_requests_in_flight", Help: "Requests that are being handled."}),
		refused:  counter("examprep_http_connections_refused_total", "Connections refused because the limit was reached."),
		held:     counter("examprep_http_refusals_held_total", "Number of 401 and 429 responses without a valid key that were delayed."),
		panics:   counter("examprep_http_panics_total", "Number of recovered handler panics."),
	}
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
	for _, code := range [...]string{ // alerts ask for these, so a rate over them must not be empty
		apierror.CodeUnauthorized, apierror.CodeRateLimited, apierror.CodeInternal, apierror.CodeServiceUnavailable, apierror.CodeRequestTimeout,
	} {
		m.errors.WithLabelValues(route.Operation, code)
	}
	return o
}

func (o *routeMetrics) count(status int, took time.Duration) {
	if class := status / 100; class > 0 && class < len(o.byClass) {
		o.byClass[class].Inc()
	}
	o.duration.Observe(took.Seconds())
}
