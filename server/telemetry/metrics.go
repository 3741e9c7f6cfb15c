package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof" // it also registers itself on the default mux, which is not served
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry with the metrics of the Go runtime and of the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return registry
}

// NewMetricsServer serves gatherer under /metrics, the pages of alerts under /runbooks/, and Go's profiles under /debug/pprof/
// if profiles is true. If a collector fails, it logs the error and serves the other collectors. The handler runbooks gets the
// name of the page as the path value "page".
func (c Checks) NewMetricsServer(
	address string, gatherer prometheus.Gatherer, runbooks http.HandlerFunc, profiles bool, logger *slog.Logger,
) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /runbooks/{page...}", runbooks)
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelError),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	}))
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index) // it serves the others by name, too
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	return c.newServer("metrics", address, mux, logger)
}

// RegisterBuild registers examprep_build_info, whose labels identify the process. Alerts and dashboards join with it.
func RegisterBuild(registerer prometheus.Registerer, process, version, environment string) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "examprep_build_info", Help: "1; the labels are the process, its version, environment and Go version.",
		ConstLabels: prometheus.Labels{
			"process": process, "version": version, "environment": environment, "goversion": runtime.Version(),
		},
	})
	info.Set(1)
	registerer.MustRegister(info)
}

// RegisterReady registers examprep_ready, which is 1 while /readyz returns 200.
func (c Checks) RegisterReady(registerer prometheus.Registerer, ready Ready) {
	registerCheck(registerer, prometheus.GaugeOpts{Name: "examprep_ready", Help: "1 while /readyz returns 200."}, cmp.Or(c.Ready, readyTimeout), ready)
}

// RegisterStore registers examprep_store_up of the store that name says. Each scrape calls ping, so an outage shows without
// traffic too.
func (c Checks) RegisterStore(registerer prometheus.Registerer, name string, ping func(context.Context) error) {
	registerCheck(registerer, prometheus.GaugeOpts{
		Name: "examprep_store_up", Help: "1 if the store responds to this process within two seconds, checked at each scrape.",
		ConstLabels: prometheus.Labels{"store": name},
	}, cmp.Or(c.Store, storeTimeout), ping)
}

// registerCheck registers a gauge that is 1 if check returns nil within timeout.
func registerCheck(registerer prometheus.Registerer, opts prometheus.GaugeOpts, timeout time.Duration, check func(context.Context) error) {
	registerer.MustRegister(prometheus.NewGaugeFunc(opts, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if check(ctx) != nil || ctx.Err() != nil { // some clients return a response that came too late
			return 0
		}
		return 1
	}))
}
