package command

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/telemetry"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// asCommand is set for a copy of the test binary that runs as examprep: to asProduction with production's time limits, to
// any other value as the program of patient.
const (
	asCommand    = "EXAMPREP_TEST_AS_COMMAND"
	asProduction = "production"
)

func TestMain(m *testing.M) {
	switch os.Getenv(asCommand) {
	case "":
		clustertest.Main(m)
	case asProduction:
		os.Exit(Program{}.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	default:
		os.Exit(patient().Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
}

// patient returns a program whose time limits do not act in a test.
func patient() Program {
	return Program{
		Timings:        directory.Production().Slower(10),
		RequestTimeout: 10 * testkit.Patience, // some tests hold requests from their beginning to their end
		StoreTimeout:   testkit.Patience, ReceiverTimeout: testkit.Patience, LeaderTimeout: testkit.Patience, TraceTimeout: testkit.Patience,
		Checks: telemetry.Checks{Ready: testkit.Patience, Store: testkit.Patience, Read: testkit.Patience, Write: testkit.Patience},
	}
}

// connectTimeout is a setting of a database's URL: connections do not time out in a test.
func connectTimeout() string {
	return fmt.Sprintf("&connect_timeout=%.0f", testkit.Patience.Seconds())
}

// env is an installation whose processes are this test binary. Everything that leaves them is recorded.
type env struct {
	*testkit.Installation

	t                 *testing.T
	store             *keys.Store
	redisPrefix       string
	spans, deliveries *testkit.Record
	receiver          *httptest.Server
}

// Logical databases of Redis. Parallel tests share cacheDatabase. Nothing else uses searchedDatabase while a test searches it.
const (
	cacheDatabase    = "/14"
	searchedDatabase = "/15"
)

func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvIn(t, cacheDatabase)
}

// newEnvIn returns an installation that uses a logical database of Redis.
func newEnvIn(t *testing.T, redisDatabase string) *env {
	t.Helper()
	return newEnvOn(t, testkit.DatabaseURL(t), redisDatabase)
}

// newEnvOn returns an installation on a migrated database, which has a parameter in its URL.
func newEnvOn(t *testing.T, database, redisDatabase string) *env {
	t.Helper()
	e := &env{t: t, spans: new(testkit.Record), deliveries: new(testkit.Record)}
	collector := httptest.NewServer(keepEverything(e.spans))
	t.Cleanup(collector.Close)
	e.receiver = httptest.NewTLSServer(keepEverything(e.deliveries))
	t.Cleanup(e.receiver.Close)
	cache, err := url.Parse(testkit.RedisURL(t))
	check.NoError(t, err)
	cache.Path = redisDatabase
	e.Installation = testkit.NewInstallation(t, os.Args[0], string(postgres.Sandbox), database, cache.String(), e.receiver)
	exportTimeout := strconv.FormatInt(testkit.Patience.Milliseconds(), 10)
	e.Env = append(e.Env, asCommand+"=1", "DATABASE_URL="+e.Postgres.URL+connectTimeout(), "EXAMPREP_LOG_LEVEL=debug",
		"EXAMPREP_SHUTDOWN_GRACE="+testkit.Patience.String(),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_EXPORTER_OTLP_TIMEOUT="+exportTimeout, "OTEL_BSP_EXPORT_TIMEOUT="+exportTimeout,
		"OTEL_TRACES_SAMPLER=always_on", "OTEL_BSP_SCHEDULE_DELAY=100")
	pool := testkit.Open(t, e.Database)
	e.store = keys.NewStore(pool, directory.NewAuthor(pool, directory.AuthorConfig{Timings: patient().Timings}))
	installation, err := postgres.ReadInstallation(t.Context(), pool, postgres.Sandbox)
	check.NoError(t, err)
	e.redisPrefix = installation.RedisPrefix()
	return e
}

// newKey issues a key, which all pods of the installation have when it returns.
func (e *env) newKey(account string) string {
	e.t.Helper()
	issued, err := e.store.CreateFor(e.t.Context(), account, keys.NewKey{})
	check.NoError(e.t, err)
	return issued.Key
}

// defaultTier gives keys an allowance that is refilled once a day, so that tokens do not depend on how long a test takes.
func (e *env) defaultTier(requests int) {
	e.t.Helper()
	check.NoError(e.t, e.store.ApplyTier(e.t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: requests, Period: 24 * time.Hour}))
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
