// Package apitest runs the API in one process, on the database and the Redis of package testkit.
package apitest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/accounts"
	"examprep.dev/server/attempts"
	"examprep.dev/server/audit"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
)

const (
	// SessionIdle is the idle time-out of sessions.
	SessionIdle = time.Hour
	// SessionLifetime is the time-out of sessions in use.
	SessionLifetime = 8 * time.Hour
)

// API is the API with a database, a Redis prefix and a port of its own.
type API struct {
	Pool     *pgxpool.Pool
	Keys     *keys.Store
	Registry *prometheus.Registry
	Logs     *testkit.Record
	Listener net.Listener
	Address  string
	// Deps are the server's parts; Variant replaces some.
	Deps httpapi.Deps
	// Redis is the gate's client.
	Redis redis.UniversalClient
	// Ahead is how far the sessions' clock is ahead, in nanoseconds.
	Ahead *atomic.Int64
	// NoPersonalAccounts makes Developer refuse persons without an account.
	NoPersonalAccounts bool
	// Key belongs to an account with a limit that no test reaches.
	Key string
	// Stop ends Serve and returns its error.
	Stop func() error
	// Clock is that of the pod's lease and of the author of Keys. It runs at a hundredth of the machine's speed.
	Clock *gatetest.Clock
	// StopGate ends the gate that New started, as the end of a pod does.
	StopGate func()
	// DatabaseTime is PostgreSQL's time as the pod knows it, behind by up to the time since the lease was renewed.
	DatabaseTime func() time.Time

	t testing.TB
}

// Options are the inputs of an API.
type Options struct {
	Config httpapi.Config
	Gate   gate.Config
	// Network is "tcp" if it is empty.
	Network string
	Exams   []catalog.Exam
	// Developer makes the parts of the developer operations. Without it there are none.
	Developer func(a *API) *developer.Deps
}

// New starts an API and stops it when the test ends.
func New(t testing.TB, o Options) *API {
	t.Helper()
	a := &API{
		t: t, Ahead: new(atomic.Int64), Pool: testkit.Database(t), Registry: prometheus.NewRegistry(), Logs: new(testkit.Record),
		Clock: gatetest.NewClock(),
	}
	logger := slog.New(slog.NewJSONHandler(a.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	catalogtest.Publish(t, a.Pool, o.Exams...)
	snapshot, err := read.OpenSnapshot(t.Context(), a.Pool, logger, read.SnapshotConfig{})
	check.NoError(t, err)
	papers := attempts.NewPapers(snapshot)
	guard := a.NewGate(o.Gate, logger)
	service, err := attempts.NewService(attempts.Config{
		NamespaceSecret: bytes.Repeat([]byte{7}, 32), Now: a.DatabaseTime, LockTimeout: testkit.Patience,
	}, a.Pool, papers, (*webhooks.Notifier)(nil))
	check.NoError(t, err)
	t.Cleanup(service.Close)
	a.Deps = httpapi.Deps{Gate: guard, Catalog: snapshot, Attempts: service, Logger: logger, Registerer: a.Registry}
	if o.Developer != nil {
		a.Deps.Developer = o.Developer(a)
	}
	a.Key = a.NewKey("fast", keys.TierSpec{Requests: 1_000_000, Period: time.Minute})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the API logged:\n%s", a.Logs)
		}
	})
	a.serve(o.Config, o.Network)
	return a
}

// Variant serves from the same stores at another address, with another configuration. change can replace parts; it can be
// nil.
func (a *API) Variant(config httpapi.Config, change func(deps *httpapi.Deps)) *API {
	a.t.Helper()
	other := *a
	other.Registry = prometheus.NewRegistry()
	other.Deps.Registerer = other.Registry
	if change != nil {
		change(&other.Deps)
	}
	other.serve(config, "")
	return &other
}

// NewGate runs a gate on the test server, under a prefix of its own. It has the API's clock and patient time-outs.
func (a *API) NewGate(cfg gate.Config, logger *slog.Logger) *gate.Gate {
	a.t.Helper()
	_, prefix := testkit.Redis(a.t)
	if cfg.Anonymous.Requests == 0 {
		cfg.Anonymous = keys.Tier{Name: "anonymous", Requests: 1_000_000, Period: time.Minute, Burst: 1_000_000}
	}
	a.Redis = testkit.OpenRedis(a.t, testkit.RedisURL(a.t), gatetest.PatientClient)
	pod := gatetest.Start(a.t, a.Pool, a.Redis, gatetest.Config{
		Prefix: prefix, Clock: a.Clock, Gate: cfg, Directory: directory.Config{Logger: logger}, Limits: ratelimit.Config{Logger: logger},
	})
	a.Keys = gatetest.NewStore(a.Pool, a.Clock)
	a.StopGate, a.DatabaseTime = pod.Stop, pod.Directory.DatabaseTime
	return pod.Gate
}

// NewKey issues a key that the pod knows. Its account and its tier have the same name.
func (a *API) NewKey(name string, tier keys.TierSpec) string {
	a.t.Helper()
	tier.Name, tier.Accounts = name, []string{name}
	check.NoError(a.t, a.Keys.ApplyTier(a.t.Context(), tier))
	issued, err := a.Keys.CreateFor(a.t.Context(), name, keys.NewKey{Name: "test"})
	check.NoError(a.t, err)
	return issued.Key
}

// Developer returns the parts of the developer operations. People sign in at the provider, which has [testkit.Patience] for a
// response unless the test sets a limit.
func (a *API) Developer(provider sessions.Provider) *developer.Deps {
	a.t.Helper()
	provider.Timeout = cmp.Or(provider.Timeout, testkit.Patience)
	provider.UserInfoTimeout = cmp.Or(provider.UserInfoTimeout, testkit.Patience)
	secret, now := bytes.Repeat([]byte{2}, 32), func() time.Time { return time.Now().Add(time.Duration(a.Ahead.Load())) }
	store := sessions.NewStore(a.Pool, sessions.Config{
		Secret: secret, Issuer: provider.Issuer, Idle: SessionIdle, Lifetime: SessionLifetime, Now: now,
	})
	people := accounts.NewStore(a.Pool, !a.NoPersonalAccounts, now)
	return &developer.Deps{
		SignIn:   sessions.NewSignIn(provider, secret, people, store),
		Sessions: store, Accounts: people, Audit: audit.NewLog(a.Pool), Keys: a.Keys, Usage: usage.NewStore(a.Pool),
		Webhooks:    webhooks.NewEndpoints(a.Pool, Keyring(a.t), webhooks.NewAddressPolicy(nil)),
		Deliveries:  webhooks.NewDeliveries(a.Pool, func(uuid.UUID) {}),
		Environment: "sandbox", SessionLifetime: SessionLifetime, Now: time.Now,
	}
}

// Keyring returns the keys with which the API encrypts signing secrets.
func Keyring(t testing.TB) *webhooks.Keyring {
	t.Helper()
	ring, err := webhooks.ParseKeyring("k:" + testkit.Secret(1))
	check.NoError(t, err)
	return ring
}

// serve starts a server whose requests have a minute, so a busy machine ends none.
func (a *API) serve(config httpapi.Config, network string) {
	a.t.Helper()
	config.HandleTimeout = cmp.Or(config.HandleTimeout, time.Minute)
	server := httpapi.New(config, a.Deps)
	address := "127.0.0.1:0"
	if network == "" {
		network = "tcp"
	}
	if network == "unix" {
		address = fmt.Sprintf("%s/%s", os.TempDir(), uuid.NewString()) // the name of t.TempDir is too long for a socket
	}
	listener, err := new(net.ListenConfig).Listen(a.t.Context(), network, address)
	check.NoError(a.t, err)
	a.Listener, a.Address = listener, listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	a.Stop = sync.OnceValue(func() error { cancel(); return <-done })
	a.t.Cleanup(func() { _ = a.Stop() })
}
