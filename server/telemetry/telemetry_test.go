package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/charts/examprep/runbooks"
	"examprep.dev/server/telemetry"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestLoggerWritesJSONFromItsLevelUp(t *testing.T) {
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, "WARN")
	check.NoError(t, err)
	logger.Info("left out")
	logger.Warn("kept", "n", 1)
	var line map[string]any
	testkit.Decode(t, out.Bytes(), &line)
	if line["msg"] != "kept" || line["n"] != 1.0 {
		t.Errorf("line = %v", line)
	}
}

func TestLoggerRefusesAnUnknownLevel(t *testing.T) {
	if _, err := telemetry.NewLogger(io.Discard, "loud"); err == nil || !strings.Contains(err.Error(), "loud") {
		t.Errorf("error = %v, want it to name the level", err)
	}
}

// patient returns limits that do not act in a test.
func patient() telemetry.Checks {
	return telemetry.Checks{Ready: testkit.Patience, Store: testkit.Patience, Read: testkit.Patience, Write: testkit.Patience}
}

// serve runs a side server on a free port, and returns its address and how to stop it.
func serve(t *testing.T, run func(context.Context, net.Listener) error) (url string, stop func() error) {
	t.Helper()
	listener := testkit.Listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, listener) }()
	t.Cleanup(cancel)
	return "http://" + listener.Addr().String(), func() error {
		cancel()
		return testkit.Receive(t, done, "the server ends")
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, body := testkit.Call(t, http.DefaultClient.Do, http.MethodGet, url, "", nil)
	return response.StatusCode, body
}

func TestReadinessTellsItsReason(t *testing.T) {
	var unready error
	server := patient().NewHealthServer("", func(context.Context) error { return unready }, slog.New(slog.DiscardHandler))
	url, stop := serve(t, server.ServeListener)
	for _, c := range []struct {
		name, path string
		unready    error
		status     int
		body       string
	}{
		{"alive and ready", "/healthz", nil, 200, `{"status":"ok"}`},
		{"ready", "/readyz", nil, 200, `{"status":"ok"}`},
		{"alive though unready", "/healthz", errors.New("snapshot not loaded"), 200, `{"status":"ok"}`},
		{"unready", "/readyz", errors.New("snapshot not loaded"), 503, `{"status":"unready","reason":"snapshot not loaded"}`},
		{"unknown", "/metrics", nil, 404, "404 page not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			unready = c.unready
			status, body := get(t, url+c.path)
			if status != c.status || strings.TrimSpace(body) != c.body {
				t.Errorf("%s = %d %s, want %d %s", c.path, status, body, c.status, c.body)
			}
		})
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestMetricsServeWhatIsRegistered(t *testing.T) {
	registry := telemetry.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "examprep_test_total", Help: "A test."})
	registry.MustRegister(counter)
	counter.Add(3)
	url, stop := serve(t, patient().NewMetricsServer("", registry, http.NotFound, false, slog.New(slog.DiscardHandler)).ServeListener)
	status, body := get(t, url+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("status = %d", status)
	}
	for _, want := range []string{"examprep_test_total 3", "go_goroutines ", "process_cpu_seconds_total "} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestProfilesAreServedOnlyWhereTheyAreAskedFor(t *testing.T) {
	for profiles, want := range map[bool]int{true: http.StatusOK, false: http.StatusNotFound} {
		server := patient().NewMetricsServer("", prometheus.NewRegistry(), http.NotFound, profiles, slog.New(slog.DiscardHandler))
		url, stop := serve(t, server.ServeListener)
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/symbol"} {
			if status, _ := get(t, url+path); status != want {
				t.Errorf("profiles %t: %s answers %d, want %d", profiles, path, status, want)
			}
		}
		if err := stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	}
}

func TestMetricsServerServesRunbooks(t *testing.T) {
	url, stop := serve(t, patient().NewMetricsServer("", prometheus.NewRegistry(), runbooks.Serve, false, slog.New(slog.DiscardHandler)).ServeListener)
	for path, file := range map[string]string{
		"/runbooks/":                            "README.md",
		"/runbooks":                             "README.md",
		"/runbooks/README.md":                   "README.md",
		"/runbooks/ExamprepAPIDown.md":          "ExamprepAPIDown.md",
		"/runbooks/ExamprepAPIDown":             "ExamprepAPIDown.md",
		"/runbooks/Unknown":                     "",
		"/runbooks/runbooks.go":                 "",
		"/runbooks/x/ExamprepAPIDown.md":        "",
		"/runbooks/%2e%2e%2fREADME.md":          "",
		"/runbooks/..%2f..%2fREADME.md":         "",
		"/runbooks/../runbooks/ExamprepAPIDown": "ExamprepAPIDown.md", // the client or the server cleans the path
	} {
		response, body := testkit.Call(t, http.DefaultClient.Do, http.MethodGet, url+path, "", nil)
		if file == "" {
			if response.StatusCode != http.StatusNotFound {
				t.Errorf("%s: status %d", path, response.StatusCode)
			}
			continue
		}
		want := string(testkit.ReadFile(t, "../../charts/examprep/runbooks/"+file))
		if response.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: status %d, %d bytes, want the %d bytes of %s", path, response.StatusCode, len(body), len(want), file)
		}
		if kind := response.Header.Get("Content-Type"); kind != "text/plain; charset=utf-8" {
			t.Errorf("%s: content type %q", path, kind)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestServeNamesAPortThatIsTaken(t *testing.T) {
	taken := testkit.Listen(t)
	defer func() { _ = taken.Close() }()
	server := patient().NewMetricsServer(taken.Addr().String(), prometheus.NewRegistry(), http.NotFound, false, slog.New(slog.DiscardHandler))
	if err := server.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "metrics server") {
		t.Errorf("error = %v", err)
	}
}

func TestTracingFollowsTheStandardVariables(t *testing.T) {
	for _, c := range []struct {
		name    string
		env     map[string]string
		enabled bool
		wrong   string
	}{
		{"nothing set", nil, false, ""},
		{"endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, true, ""},
		{"exporter", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{"grpc", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		{"turned off", map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false, ""},
		{"disabled", map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, false, ""},
		{"unknown exporter", map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "zipkin"},
		{"unknown protocol", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "morse"}, false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
				t.Setenv(name, c.env[name])
			}
			tracing, err := telemetry.NewTracing(t.Context(), "examprep-test", "v0")
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("error = %v, want it to name %s", err, c.wrong)
				}
				return
			}
			check.NoError(t, err)
			if tracing.Enabled != c.enabled {
				t.Errorf("enabled = %v", tracing.Enabled)
			}
			if err := tracing.Shutdown(t.Context()); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		})
	}
}

func TestSpansReachTheConfiguredCollector(t *testing.T) {
	received := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case received <- r.URL.Path + " " + string(body):
		default:
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", strconv.FormatInt(testkit.Patience.Milliseconds(), 10))
	t.Setenv("OTEL_SERVICE_NAME", "renamed")
	tracing, err := telemetry.NewTracing(t.Context(), "examprep-test", "v0")
	check.NoError(t, err)
	_, span := tracing.Provider.Tracer("test").Start(t.Context(), "a span")
	span.End()
	check.NoError(t, tracing.Shutdown(t.Context()))
	got := testkit.Receive(t, received, "the collector gets the span")
	for _, want := range []string{"/v1/traces ", "a span", "renamed"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing from what the collector received", want)
		}
	}
}
