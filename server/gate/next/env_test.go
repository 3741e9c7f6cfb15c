package gate_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	gate "examprep.dev/server/gate/next"
	"examprep.dev/server/gate/next/gatetest"
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
	author *directory.Author
	gate   *gatetest.Pod
}

func newEnv(t testing.TB, cfg gatetest.Config) *env {
	t.Helper()
	_, cfg.Prefix = testkit.Redis(t)
	return newEnvOn(t, testkit.OpenRedis(t, testkit.RedisURL(t), gatetest.PatientClient), cfg)
}

func newEnvOn(t testing.TB, rdb redis.UniversalClient, cfg gatetest.Config) *env {
	t.Helper()
	schema, err := os.ReadFile("../../keys/directory/schema.sql")
	check.NoError(t, err)
	pool := testkit.Database(t)
	testkit.Exec(t, pool, string(schema))
	e := &env{pool: pool, rdb: rdb, prefix: cfg.Prefix, author: directory.NewAuthor(pool)}
	e.store = keys.NewStore(pool, confirming{e.author})
	e.gate = gatetest.Start(t, pool, rdb, cfg)
	return e
}

// confirming makes the author of package directory the announcer of the present store.
type confirming struct{ author *directory.Author }

func (c confirming) Announce(ctx context.Context, _ ...keys.Record) error {
	return c.author.Confirm(ctx, directory.Restriction)
}

// newPod returns another pod of the installation.
func (e *env) newPod(t testing.TB) *gatetest.Pod {
	t.Helper()
	return gatetest.Start(t, e.pool, e.rdb, gatetest.Config{Prefix: e.prefix})
}

func (e *env) create(t testing.TB, tier string) keys.Issued {
	t.Helper()
	created, err := e.store.Create(t.Context(), keys.NewKey{Account: "acme", Tier: tier})
	check.NoError(t, err)
	check.NoError(t, e.author.Confirm(t.Context(), directory.Addition))
	return created
}

func (e *env) tier(t testing.TB, spec keys.TierSpec) {
	t.Helper()
	check.NoError(t, e.store.ApplyTier(t.Context(), spec))
	check.NoError(t, e.author.Confirm(t.Context(), directory.Restriction))
}

func bearer(key string) []byte { return []byte("Bearer " + key) }

func allowed(pod *gatetest.Pod, key keys.Issued) bool {
	return pod.Check(context.Background(), bearer(key.Key), client).Outcome == gate.Allowed
}

// route is an address that moves from one server to another, as a Sentinel client's does.
type route struct{ port atomic.Int64 }

func (r *route) to(s *testkit.RedisServer) { r.port.Store(int64(s.Number())) }

// client returns a limiter's client along the route.
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

// clientOf returns a limiter's client of one server.
func clientOf(t testing.TB, s *testkit.RedisServer) redis.UniversalClient {
	t.Helper()
	var r route
	r.to(s)
	return r.client(t, gatetest.PatientClient)
}
