package command

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
)

// asCommand is set for a copy of the test binary that is to be examprep.
const asCommand = "EXAMPREP_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	clustertest.Main(m)
}

// stage is where real processes run: everything that leaves them is on record.
type stage struct {
	t *testing.T
	// database and cache are the servers' own addresses; the processes know those of the taps only.
	database, cache       string
	databaseTap, cacheTap *tap
	redisPrefix           string
	spans, deliveries     *testkit.Record
	receiver              *httptest.Server
	environment           []string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, database: testkit.DatabaseURL(t), spans: new(testkit.Record), deliveries: new(testkit.Record)}
	s.tapDatabase()
	s.tapCache()
	collector := httptest.NewServer(keepEverything(s.spans))
	t.Cleanup(collector.Close)
	s.receiver = httptest.NewTLSServer(keepEverything(s.deliveries))
	t.Cleanup(s.receiver.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.receiver.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	s.environment = append(s.environment, asCommand+"=1", "EXAMPREP_ENVIRONMENT=sandbox", "EXAMPREP_LOG_LEVEL=debug",
		"EXAMPREP_NAMESPACE_SECRET="+namespaceSecret, "EXAMPREP_ENCRYPTION_KEYS="+encryptionKeys,
		"EXAMPREP_WEBHOOK_ALLOW_CIDR=127.0.0.0/8", "EXAMPREP_WEBHOOK_CA_FILE="+authority,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_TRACES_SAMPLER=always_on", "OTEL_BSP_SCHEDULE_DELAY=100")
	return s
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

// tapDatabase puts a tap before Postgres.
func (s *stage) tapDatabase() {
	s.t.Helper()
	config, err := pgx.ParseConfig(s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	network, address := "tcp", net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	if strings.HasPrefix(config.Host, "/") {
		network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	}
	s.databaseTap = newTap(s.t, network, address)
	through := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Host: s.databaseTap.address(),
		Path: config.Database, RawQuery: "sslmode=disable",
	}
	s.environment = append(s.environment, "DATABASE_URL="+through.String())
}

// cacheDatabase is a logical database of Redis that no other test uses, so that all of it can be searched.
const cacheDatabase = 15

// tapCache puts a tap before Redis.
func (s *stage) tapCache() {
	s.t.Helper()
	pool := testkit.Open(s.t, s.database)
	installation, err := postgres.ReadInstallation(s.t.Context(), pool, postgres.Sandbox)
	if err != nil {
		s.t.Fatal(err)
	}
	s.redisPrefix = installation.RedisPrefix()
	options, err := redis.ParseURL(testkit.RedisURL(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	s.cacheTap = newTap(s.t, options.Network, options.Addr)
	through := url.URL{Scheme: "redis", Host: s.cacheTap.address(), Path: fmt.Sprint(cacheDatabase)}
	if options.Password != "" {
		through.User = url.UserPassword(options.Username, options.Password)
	}
	s.environment = append(s.environment, "REDIS_URL="+through.String())
	direct, err := url.Parse(testkit.RedisURL(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	direct.Path = fmt.Sprint(cacheDatabase)
	s.cache = direct.String()
}

// run runs a command to its end and returns what it printed.
func (s *stage) run(args ...string) []byte {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), s.environment...)
	printed, err := command.Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		s.t.Fatalf("examprep %v: %v", args, err)
	}
	return printed
}

// pod is a process that runs until it is stopped.
type pod struct {
	output  *testkit.Record
	health  string
	metrics string
	// stop asks the process to end, and waits until it has.
	stop func()
}

// start starts a process and waits until it is ready.
func (s *stage) start(args ...string) *pod {
	s.t.Helper()
	p := &pod{output: new(testkit.Record), health: testkit.FreeAddress(s.t), metrics: testkit.FreeAddress(s.t)}
	command := exec.CommandContext(s.t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), s.environment...)
	command.Env = append(command.Env, "EXAMPREP_HEALTH_LISTEN="+p.health, "EXAMPREP_METRICS_LISTEN="+p.metrics)
	command.Stdout, command.Stderr = p.output, p.output
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	p.stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			s.t.Errorf("examprep %v: %v\n%s", args, err, p.output.Bytes())
		}
	})
	s.t.Cleanup(p.stop)
	testkit.Eventually(s.t, args[0]+" is ready", func() bool {
		answer, err := http.Get("http://" + p.health + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return p
}

// scrape reads a pod's metrics.
func (s *stage) scrape(p *pod) []byte {
	s.t.Helper()
	answer, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// tap stands between the processes and a server, and records every byte of both directions.
type tap struct {
	listener net.Listener
	traffic  testkit.Record
	mu       sync.Mutex
	// open are the connections; closed tells that no new one is let through.
	open   map[net.Conn]struct{}
	closed bool
}

func newTap(t *testing.T, network, server string) *tap {
	t.Helper()
	listener := testkit.Listen(t)
	p := &tap{listener: listener, open: map[net.Conn]struct{}{}}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { p.connect(client, network, server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut(true)
		connections.Wait()
	})
	return p
}

func (p *tap) address() string { return p.listener.Addr().String() }

func (p *tap) connect(client net.Conn, network, server string) {
	defer func() { _ = client.Close() }()
	upstream, err := new(net.Dialer).DialContext(context.Background(), network, server)
	if err != nil || !p.keep(client) {
		return
	}
	defer func() { _ = upstream.Close() }()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(io.MultiWriter(client, &p.traffic), upstream)
		_ = client.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(upstream, &p.traffic), client)
	_ = upstream.Close()
	<-back
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
}

// keep reports whether a new connection is let through.
func (p *tap) keep(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.open[client] = struct{}{}
	}
	return !p.closed
}

// cut breaks every connection, and, while away, each new one.
func (p *tap) cut(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = away
	for client := range p.open {
		_ = client.Close()
	}
}
