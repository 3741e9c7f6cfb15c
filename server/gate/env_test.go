package gate_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

var client = netip.MustParseAddr("192.0.2.7")

// neverIssued has the form of a key.
const neverIssued = "service_00000000000000000000000000000000000000005176df86"

// env is an installation: a database, a Redis, a store of keys and a pod, which have one clock.
type env struct {
	pool   *pgxpool.Pool
	rdb    redis.UniversalClient
	prefix string
	clock  *gatetest.Clock // nil: production's clock and limits
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
	e := &env{pool: testkit.Database(t), rdb: rdb, prefix: cfg.Prefix}
	if !cfg.Production {
		e.clock = gatetest.NewClock()
	}
	cfg.Clock = e.clock
	e.store = gatetest.NewStore(e.pool, e.clock)
	e.gate = gatetest.Start(t, e.pool, rdb, cfg)
	return e
}

func (e *env) newPod(t testing.TB) *gatetest.Pod {
	t.Helper()
	return e.newPodWith(t, gatetest.Config{})
}

// newPodWith returns such a pod with other settings. Its limiter needs a client of its own.
func (e *env) newPodWith(t testing.TB, cfg gatetest.Config) *gatetest.Pod {
	t.Helper()
	cfg.Prefix, cfg.Clock = e.prefix, e.clock
	return gatetest.Start(t, e.pool, testkit.OpenRedis(t, testkit.RedisURL(t), gatetest.PatientClient), cfg)
}

func (e *env) create(t testing.TB, tier string) keys.CreatedKey {
	t.Helper()
	created, err := e.store.CreateFor(patient(t), "acme", keys.NewKey{Tier: tier})
	check.NoError(t, err)
	return created
}

func (e *env) tier(t testing.TB, spec keys.TierSpec) {
	t.Helper()
	check.NoError(t, e.store.ApplyTier(patient(t), spec))
}

func (e *env) revoke(t testing.TB, key keys.CreatedKey) {
	t.Helper()
	check.NoError(t, e.store.RevokeAny(patient(t), key.Prefix))
}

// patient returns a context that ends a call which waits in vain.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	return ctx
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

// load is clients of pods that use one key after the other, without a pause.
type load struct {
	present               atomic.Pointer[usedKey]
	passed, wrong, failed atomic.Int64
	stop                  func()
}

type usedKey struct {
	header  []byte
	revoked atomic.Bool // and the revocation was answered
}

// startLoad has clients use a key on all pods. Each also uses the key before it. Allowed requests that began after the
// revocation was answered are wrong. Requests with a key that is not revoked and do not pass are failed.
func startLoad(t testing.TB, pods []*gatetest.Pod, clients int, key keys.CreatedKey) *load {
	t.Helper()
	l := &load{}
	l.use(key)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			previous := l.present.Load()
			for {
				select {
				case <-stop:
					return
				default:
				}
				runtime.Gosched() // as a request does that comes by the network: refusals from memory never wait
				current := l.present.Load()
				l.ask(pods[i%len(pods)], current)
				l.ask(pods[i%len(pods)], previous)
				previous = current
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(stop); group.Wait() })
	t.Cleanup(l.stop)
	return l
}

func (l *load) ask(pod *gatetest.Pod, key *usedKey) {
	revoked := key.revoked.Load()
	switch d := pod.Check(context.Background(), key.header, client); {
	case d.Outcome != gate.Allowed && l.present.Load() == key:
		l.failed.Add(1) // or it is being revoked
	case d.Outcome != gate.Allowed:
	case revoked:
		l.wrong.Add(1)
	default:
		l.passed.Add(1)
	}
}

// use has the clients use another key.
func (l *load) use(key keys.CreatedKey) { l.present.Store(&usedKey{header: bearer(key.Key)}) }

// used returns when so many more requests have passed.
func (l *load) used(t testing.TB, n int64) {
	t.Helper()
	before := l.passed.Load()
	testkit.Eventually(t, "the key is used", func() bool { return l.passed.Load() > before+n })
}

// revoked notes that the revocation of the present key was answered.
func (l *load) revoked() { l.present.Load().revoked.Store(true) }

// end stops the clients and reports requests that passed too late.
func (l *load) end(t testing.TB) {
	t.Helper()
	l.stop()
	t.Logf("%d passed", l.passed.Load())
	if n := l.wrong.Load(); n > 0 {
		t.Errorf("%d of %d passed after the answer", n, l.passed.Load())
	}
}

// endless is a tier whose limit no test reaches.
func (e *env) endless(t testing.TB) {
	t.Helper()
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
}

// address returns a client address of its own: clients empty the bucket of client with revoked keys.
func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(n >> 8), byte(n)}) }
