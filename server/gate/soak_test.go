package gate_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/ratelimit/buckettest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// The tests of this file need a machine of their own: servers fall silent and restart, and production's time limits hold.

const (
	// revocationsVariable sets the number of keys that are created, used and revoked.
	revocationsVariable = "GATE_TEST_REVOCATIONS"
	// livesVariable sets how often Redis is restarted.
	livesVariable = "GATE_TEST_LIVES"
)

// production are a pod's settings in the tests of this file.
var production = gatetest.Config{Prefix: "p:", Production: true}

// revokeUnderLoad revokes the key that clients use on all pods, and makes the next one, n times. It calls step before each
// revocation and after the last one, and reports requests that passed after a revocation was answered.
func revokeUnderLoad(t *testing.T, e *env, pods []*gatetest.Pod, clients, n int, step func(i int)) {
	t.Helper()
	e.endless(t)
	key := e.create(t, "endless")
	l := startLoad(t, pods, clients, key)
	for i := range n {
		l.used(t, 20)
		step(i)
		e.revoke(t, key)
		l.revoked()
		key = e.create(t, "endless")
		l.use(key)
	}
	step(n)
	l.end(t)
}

func TestNoRequestPassesAfterARevocationIsAnswered(t *testing.T) {
	testkit.Soak(t)
	own := testkit.StartRedis(t)
	e, pods := productionPods(t, func() redis.UniversalClient { return testkit.OpenRedis(t, own.URL(), ratelimit.ClientOptions) })
	revokeUnderLoad(t, e, pods, 64, int(testkit.Size(t, revocationsVariable, 50)), func(int) {})
}

// productionPods returns an installation with four pods, each with a client of its own.
func productionPods(t *testing.T, open func() redis.UniversalClient) (*env, []*gatetest.Pod) {
	t.Helper()
	e := newEnvOn(t, open(), production)
	pods := []*gatetest.Pod{e.gate}
	for range 3 {
		pods = append(pods, gatetest.Start(t, e.pool, open(), production))
	}
	return e, pods
}

func TestRevocationHoldsWhileRedisIsPausedKilledAndReplaced(t *testing.T) {
	testkit.Soak(t)
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	var r route
	r.to(first)
	e, pods := productionPods(t, func() redis.UniversalClient { return r.client(t, ratelimit.ClientOptions) })
	replicate(t, first, second)
	accidents := map[int]func(){
		4:  func() { first.Pause() },
		6:  func() { first.Resume() },
		10: func() { promote(t, second) },
		11: func() { r.to(second); first.Kill() },
		16: func() { second.Pause() },
		17: func() { second.Resume() },
		20: func() { second.Kill() },
		21: func() { second.Start() },
	}
	revokeUnderLoad(t, e, pods, 16, 26, func(i int) {
		if accident := accidents[i]; accident != nil {
			accident()
		}
	})
}

func replicate(t *testing.T, master, replica *testkit.RedisServer) {
	t.Helper()
	admin := replica.Admin()
	check.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", master.Port()).Err())
	source := master.Admin()
	testkit.Eventually(t, "the replica has all", func() bool {
		return source.Do(t.Context(), "wait", 1, 10).Val() == int64(1) && admin.DBSize(t.Context()).Val() == source.DBSize(t.Context()).Val()
	})
}

func promote(t *testing.T, replica *testkit.RedisServer) {
	t.Helper()
	check.NoError(t, replica.Admin().ReplicaOf(t.Context(), "no", "one").Err())
}

// TestRevocationHoldsWhilePostgresRestarts: a change that fails during a restart is tried again.
func TestRevocationHoldsWhilePostgresRestarts(t *testing.T) {
	testkit.Soak(t)
	server, own := testkit.StartPostgres(t), testkit.StartRedis(t)
	check.NoError(t, postgres.Migrate(t.Context(), server.URL, postgres.Sandbox))
	pool := testkit.Open(t, server.URL)
	e := &env{pool: pool, store: gatetest.NewStore(pool, nil)}
	var pods []*gatetest.Pod
	for range 4 {
		pods = append(pods, gatetest.Start(t, pool, testkit.OpenRedis(t, own.URL(), ratelimit.ClientOptions), production))
	}
	failed := 0
	try := func(what string, change func(context.Context) error) {
		check.NoError(t, testkit.Await(patient(t), what, func(ctx context.Context) error {
			err := change(ctx)
			if err != nil {
				failed++
			}
			return err
		}))
	}
	create := func() (key keys.CreatedKey) {
		try("a key is created", func(ctx context.Context) (err error) {
			key, err = e.store.CreateFor(ctx, "acme", keys.NewKey{Tier: "endless"})
			return err
		})
		return key
	}
	e.endless(t)
	key := create()
	l := startLoad(t, pods, 16, key)
	revoked := 0
	for i := range int(testkit.Size(t, cutsVariable, 4)) {
		l.used(t, 20)
		restarted := make(chan error, 1)
		go func() {
			mode := []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}[i%2]
			restarted <- server.Restart(t.Context(), mode)
		}()
		for over := false; !over; revoked++ {
			select {
			case err := <-restarted:
				check.NoError(t, err)
				over = true
			default:
			}
			try("the key is revoked", func(ctx context.Context) error { return e.store.RevokeAny(ctx, key.Prefix) })
			l.revoked()
			key = create()
			l.use(key)
		}
	}
	l.used(t, 20)
	l.end(t)
	t.Logf("%d keys were revoked, %d changes were tried again", revoked, failed)
	for i, pod := range pods {
		testkit.Eventually(t, "the pod has a lease", pod.Directory.Leased)
		expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), client), gate.Allowed, "pod %d, the last key", i)
	}
}

// fleet is four pods on one Redis server and no other. Their clocks are an hour apart from each other and from Redis. All
// their clocks skip the time that is added to skipped.
type fleet struct {
	*env

	pods       []*gatetest.Pod
	registries []*prometheus.Registry
	skipped    atomic.Int64
}

func newFleet(t *testing.T, own *testkit.RedisServer) *fleet {
	t.Helper()
	f := &fleet{env: newEnvOn(t, clientOf(t, own), production)}
	f.gate.Stop()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Minute} {
		now := func() time.Time { return time.Now().Add(ahead + time.Duration(f.skipped.Load())) }
		registry := prometheus.NewRegistry()
		f.registries = append(f.registries, registry)
		f.pods = append(f.pods, gatetest.Start(t, f.pool, clientOf(t, own), gatetest.Config{
			Prefix: "p:", Production: true, Gate: gate.Config{Now: now}, Limits: ratelimit.Config{Now: now, Registerer: registry},
		}))
	}
	for _, pod := range f.pods {
		testkit.Eventually(t, "the pod knows the others", func() bool { return pod.Directory.Pods() == len(f.pods) })
	}
	return f
}

// usesRedis reports whether a pod gets tokens from Redis. A pod that fails to get this one from Redis is degraded.
func usesRedis(t *testing.T, pod *gatetest.Pod, probe keys.CreatedKey, registry *prometheus.Registry) bool {
	t.Helper()
	return allowed(pod, probe) && degraded(t, registry) == 0
}

// TestAnOutageGivesAKeyNoMoreThanItsShares: requests of one key are under way on four pods while Redis ends and starts
// again with its log. The key gets its bucket, and from each pod one share of another bucket.
func TestAnOutageGivesAKeyNoMoreThanItsShares(t *testing.T) {
	testkit.Soak(t)
	own := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	f := newFleet(t, own)
	f.tier(t, keys.TierSpec{Name: "closed", Requests: 100, Period: 700 * time.Hour})
	f.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key, probe := f.create(t, "closed"), f.create(t, "endless")
	total := make(chan int)
	stop := make(chan struct{})
	const clients = 16
	for i := range clients {
		go func() {
			passed := 0
			for pod := f.pods[i%len(f.pods)]; ; {
				select {
				case <-stop:
					total <- passed
					return
				default:
				}
				if allowed(pod, probe) && allowed(pod, key) {
					passed++
				}
			}
		}()
	}
	for range 3 {
		own.Kill()
		own.Start()
		for i := range f.pods {
			testkit.Eventually(t, "the pod uses Redis again", func() bool { return degraded(t, f.registries[i]) == 0 })
		}
	}
	close(stop)
	passed := 0
	for range clients {
		passed += testkit.Receive(t, total, "a client stops")
	}
	if passed > 200 {
		t.Errorf("%d passed of a bucket of 100 and four shares of 25", passed)
	}
	if passed < 100-clients {
		t.Errorf("only %d passed of a bucket of 100, although at most %d were under way", passed, clients)
	}
}

// TestBucketsOutliveRedisAsFarAsItsDataDoes kills Redis between bursts, again and again. If Redis keeps nothing, the bucket
// is full after each start. If Redis keeps its log, the bucket is one from first to last.
func TestBucketsOutliveRedisAsFarAsItsDataDoes(t *testing.T) {
	testkit.Soak(t)
	for name, c := range map[string]struct {
		arguments []string
		keeps     bool
	}{
		"it keeps nothing": {nil, false},
		"it keeps its log": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			own := testkit.StartRedis(t, c.arguments...)
			f := newFleet(t, own)
			redisClock := buckettest.Clock{Redis: own.Admin()}
			newBucket := newBuckets(t, f.env, f.pods)
			var buckets []*buckettest.History
			for _, rate := range buckettest.Rates() {
				buckets = append(buckets, newBucket(rate))
			}
			f.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
			probe := f.create(t, "endless")
			dataLife := 0
			for life := range int(testkit.Size(t, livesVariable, 3)) {
				if !c.keeps {
					dataLife = life
				}
				for range 4 {
					redisClock.Send(t, dataLife, 0, len(f.pods), 1+rand.IntN(25), buckets...)
					redisClock.Pass(t, time.Duration(rand.IntN(20))*time.Millisecond)
				}
				own.Kill()
				own.Start()
				f.skipped.Add(int64(3 * time.Hour)) // no pod remembers a denial
				for i, pod := range f.pods {
					testkit.Eventually(t, "the pod uses Redis again", func() bool { return usesRedis(t, pod, probe, f.registries[i]) })
				}
			}
			for _, bucket := range buckets {
				if err := bucket.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
