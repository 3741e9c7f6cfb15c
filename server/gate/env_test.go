package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

var client = netip.MustParseAddr("192.0.2.7")

// neverIssued has the form of a key.
const neverIssued = "service_00000000000000000000000000000000000000005176df86"

// env is an installation: a database, a Redis, a store of keys and a pod.
type env struct {
	pool   *pgxpool.Pool
	rdb    redis.UniversalClient
	prefix string
	store  *keys.Store
	gate   *gatetest.Pod
}

func newEnv(t testing.TB, cfg gatetest.Config) *env {
	t.Helper()
	_, cfg.Prefix = testkit.Redis(t)
	return newEnvOn(t, testkit.OpenRedis(t, testkit.RedisURL(t), gatetest.PatientClient), cfg)
}

func newEnvOn(t testing.TB, rdb redis.UniversalClient, cfg gatetest.Config) *env {
	t.Helper()
	pool := testkit.Database(t)
	e := &env{pool: pool, rdb: rdb, prefix: cfg.Prefix, store: keys.NewStore(pool, directory.NewAuthor(pool, directory.AuthorConfig{}))}
	e.gate = gatetest.Start(t, pool, rdb, cfg)
	return e
}

func (e *env) newPod(t testing.TB) *gatetest.Pod {
	t.Helper()
	return e.newPodWith(t, gatetest.Config{})
}

// newPodWith returns such a pod with other settings. Its limiter needs a client of its own.
func (e *env) newPodWith(t testing.TB, cfg gatetest.Config) *gatetest.Pod {
	t.Helper()
	cfg.Prefix = e.prefix
	return gatetest.Start(t, e.pool, testkit.OpenRedis(t, testkit.RedisURL(t), gatetest.PatientClient), cfg)
}

func (e *env) create(t testing.TB, tier string) (created keys.CreatedKey) {
	t.Helper()
	confirmed(t, func() (err error) {
		created, err = e.store.Create(t.Context(), keys.NewKey{Account: "acme", Tier: tier})
		return err
	})
	return created
}

func (e *env) tier(t testing.TB, spec keys.TierSpec) {
	t.Helper()
	confirmed(t, func() error { return e.store.ApplyTier(t.Context(), spec) })
}

// confirmed repeats a change until all pods have confirmed it, since on a busy machine that can take longer than the store waits.
func confirmed(t testing.TB, change func() error) {
	t.Helper()
	var err error
	testkit.Eventually(t, "the change is confirmed", func() bool {
		err = change()
		_, unconfirmed := errors.AsType[*keys.UnconfirmedError](err)
		return !unconfirmed
	})
	check.NoError(t, err)
}

func bearer(key string) []byte { return []byte("Bearer " + key) }

func allowed(pod *gatetest.Pod, key keys.CreatedKey) bool {
	return pod.Check(context.Background(), bearer(key.Key), client).Outcome == gate.Allowed
}

// expectOutcome reports a decision of another outcome. The format and its arguments say what was decided.
func expectOutcome(t testing.TB, d gate.Decision, want gate.Outcome, format string, args ...any) { //nolint:goprintffuncname // every check takes a message
	t.Helper()
	if d.Outcome != want {
		t.Errorf("%s: got %+v, want outcome %v", fmt.Sprintf(format, args...), d, want)
	}
}

// route is an address that moves from one server to another, as a Sentinel client's does.
type route struct{ port atomic.Int64 }

func (r *route) to(s *testkit.RedisServer) { r.port.Store(int64(s.Number())) }

func (r *route) client(t testing.TB, adjust func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	options := &redis.UniversalOptions{Addrs: []string{"redis.test:6379"}}
	adjust(options)
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(r.port.Load(), 10))
		return (&net.Dialer{Timeout: options.DialTimeout}).DialContext(ctx, network, address)
	}
	rdb := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func clientOf(t testing.TB, s *testkit.RedisServer) redis.UniversalClient {
	t.Helper()
	var r route
	r.to(s)
	return r.client(t, gatetest.PatientClient)
}
