package command

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// asCommand is set for a copy of the test binary that runs as examprep.
const asCommand = "EXAMPREP_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	clustertest.Main(m)
}

// redelivery is longer than a delivery takes if a busy machine loses its lease and its first attempt: 20 s and a retry.
const redelivery = 2 * time.Minute

// env is an installation whose processes are this test binary. Everything that leaves them is recorded.
type env struct {
	*testkit.Installation

	t                 *testing.T
	redisPrefix       string
	spans, deliveries *testkit.Record
	receiver          *httptest.Server
}

// cacheDatabase is a logical database of Redis that no other test uses, so that all of it can be searched.
const cacheDatabase = "/15"

func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvOf(t, postgres.Sandbox, testkit.DatabaseURL(t))
}

// newEnvOf returns the installation of a migrated database, which has that environment.
func newEnvOf(t *testing.T, environment postgres.Environment, database string) *env {
	t.Helper()
	e := &env{t: t, spans: new(testkit.Record), deliveries: new(testkit.Record)}
	collector := httptest.NewServer(keepEverything(e.spans))
	t.Cleanup(collector.Close)
	e.receiver = httptest.NewTLSServer(keepEverything(e.deliveries))
	t.Cleanup(e.receiver.Close)
	cache, err := url.Parse(testkit.RedisURL(t))
	check.NoError(t, err)
	cache.Path = cacheDatabase
	e.Installation = testkit.NewInstallation(t, os.Args[0], string(environment), database, cache.String(), e.receiver)
	e.Env = append(e.Env, asCommand+"=1", "EXAMPREP_LOG_LEVEL=debug",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_TRACES_SAMPLER=always_on", "OTEL_BSP_SCHEDULE_DELAY=100")
	installation, err := postgres.ReadInstallation(t.Context(), testkit.Open(t, e.Database), environment)
	check.NoError(t, err)
	e.redisPrefix = installation.RedisPrefix()
	return e
}

// keepEverything is a handler that records requests, line, headers and body, and is content with all of them.
func keepEverything(r *testkit.Record) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var whole bytes.Buffer
		_, _ = fmt.Fprintf(&whole, "%s %s\n", request.Method, request.RequestURI)
		_ = request.Header.Write(&whole)
		_, _ = io.Copy(&whole, request.Body)
		_, _ = r.Write(append(whole.Bytes(), '\n'))
		w.WriteHeader(http.StatusOK)
	})
}

func (e *env) start(args ...string) *testkit.Pod {
	e.t.Helper()
	p := testkit.NewPod(e.t)
	p.Start(e.t, e.Program, nil, args...)
	testkit.Eventually(e.t, args[0]+" is ready", func() bool { return testkit.Answers(p.Health, "/readyz") })
	return p
}
