package gate_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestWithoutRedisEachPodGrantsItsShareAndItRecoversByItself(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t)
	registry := prometheus.NewRegistry()
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:", Limits: ratelimit.Config{Registerer: registry}})
	e.tier(t, keys.TierSpec{Name: "ten", Requests: 10, Period: time.Hour})
	key, doomed := e.create(t, "ten"), e.create(t, "ten")
	for range 4 {
		if !allowed(e.gate, key) {
			t.Fatal("refused with Redis there")
		}
	}
	own.Kill()
	passed := 0
	for range 30 {
		if allowed(e.gate, key) {
			passed++
		}
	}
	check.Equal(t, passed, 10, "requests passed by the only pod, whose share is the whole bucket")
	check.Equal(t, degraded(t, registry), 1, "examprep_gate_degraded")
	if !allowed(e.gate, doomed) {
		t.Fatal("the other key is refused")
	}
	if err := e.store.Revoke(t.Context(), uuid.Nil, doomed.Prefix); err != nil {
		t.Fatalf("revoke without Redis: %v", err)
	}
	expectOutcome(t, e.gate.Check(t.Context(), bearer(doomed.Key), client), gate.Unauthorized, "revoked without Redis")
	own.Start()
	testkit.Eventually(t, "the gate uses Redis again", func() bool { return degraded(t, registry) == 0 })
	expectOutcome(t, e.gate.Check(t.Context(), bearer(doomed.Key), client), gate.Unauthorized, "revoked, after recovery")
	if !allowed(e.gate, e.create(t, "ten")) {
		t.Error("a new key is refused after recovery")
	}
}

func degraded(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	return testkit.Series(t, registry)["examprep_gate_degraded"][0].GetGauge().GetValue()
}

// remote is an environment with a second pod that reaches PostgreSQL and Redis through proxies.
type remote struct {
	*env

	pod             *gatetest.Pod
	postgres, redis *testkit.Proxy
}

// newRemote returns one whose second pod has the time limits of production in its calls to Redis.
func newRemote(t *testing.T) *remote {
	t.Helper()
	return newRemoteWith(t, ratelimit.ClientOptions, 250*time.Millisecond)
}

// newRemoteWith returns one whose second pod has a client with other options, and another time limit of a call to Redis.
func newRemoteWith(t *testing.T, options func(*redis.UniversalOptions), callTimeout time.Duration) *remote {
	t.Helper()
	own := testkit.StartRedis(t)
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:"})
	r := &remote{
		env: e, postgres: testkit.StartProxy(t, e.pool.Config().ConnString(), testkit.ProxyOptions{}),
		redis: testkit.StartProxy(t, own.URL(), testkit.ProxyOptions{}),
	}
	pool, err := pgxpool.New(t.Context(), r.postgres.URL)
	check.NoError(t, err)
	t.Cleanup(pool.Close)
	r.pod = gatetest.Start(t, pool, testkit.OpenRedis(t, r.redis.URL, options), gatetest.Config{
		Prefix: "p:", Limits: ratelimit.Config{CallTimeout: callTimeout},
	})
	return r
}

func (r *remote) awaitLeaseEnd(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "the lease is over", func() bool { return !r.pod.Directory.Leased() })
}

// awayVariable says for how long PostgreSQL is unreachable (make soak: 60 s).
const awayVariable = "GATE_TEST_AWAY"

func TestWithoutPostgresKnownKeysPass(t *testing.T) {
	t.Parallel()
	r := newRemoteWith(t, gatetest.PatientClient, gatetest.Patience)
	r.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	key := r.create(t, "endless")
	testkit.Eventually(t, "the key passes", func() bool { return allowed(r.pod, key) })
	r.postgres.Cut(true)
	r.awaitLeaseEnd(t)
	testkit.Eventually(t, "Redis has the pod's number", func() bool { return allowed(r.pod, key) })
	away := time.After(testkit.Duration(t, awayVariable, 0))
	for checks, back := 0, false; checks < 20 || !back; checks++ {
		if !allowed(r.pod, key) {
			t.Fatal("a known key is refused")
		}
		select {
		case <-away:
			back = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	check.NoError(t, r.pod.Directory.Ready(t.Context()))
	for name, c := range map[string]struct {
		header []byte
		want   gate.Outcome
	}{
		"unknown":   {bearer(neverIssued), gate.Unavailable},
		"malformed": {bearer("service_123"), gate.Unauthorized},
		"missing":   {nil, gate.Unauthorized},
	} {
		expectOutcome(t, r.pod.Check(t.Context(), c.header, netip.MustParseAddr("198.51.100.1")), c.want, "%s", name)
	}
	check.NoError(t, r.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
	expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), client), gate.Unavailable, "revoked while the pod cannot reach PostgreSQL")
	if r.pod.Directory.Ready(t.Context()) == nil {
		t.Error("the pod is ready although Redis has a newer change")
	}
	r.postgres.Cut(false)
	testkit.Eventually(t, "the pod has a lease again", r.pod.Directory.Leased)
	expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), client), gate.Unauthorized, "afterwards")
}

func TestWithBothStoresAwayTheGateIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	key := r.create(t, "")
	testkit.Eventually(t, "the key passes", func() bool { return allowed(r.pod, key) })
	r.postgres.Cut(true)
	r.redis.Cut(true)
	r.awaitLeaseEnd(t)
	d := r.pod.Check(t.Context(), bearer(key.Key), client)
	if d.Outcome != gate.Unavailable || d.RetryAfter < time.Second || d.Limit != 120 || d.Remaining != 0 {
		t.Errorf("got %+v", d)
	}
	check.NoError(t, r.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
	if d := r.pod.Check(t.Context(), bearer(key.Key), client); d.Outcome == gate.Allowed {
		t.Errorf("revoked: got %+v", d)
	}
}

func TestReplicaThatLacksTheLastChangeRevivesNoKey(t *testing.T) {
	t.Parallel()
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	var r route
	r.to(first)
	e := newEnvOn(t, r.client(t, gatetest.PatientClient), gatetest.Config{Prefix: "p:"})
	key, other := e.create(t, ""), e.create(t, "")
	if !allowed(e.gate, key) || !allowed(e.gate, other) {
		t.Fatal("refused")
	}
	replicate(t, first, second)
	promote(t, second)
	check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
	r.to(second)
	first.Kill()
	for range 5 {
		if allowed(e.gate, key) {
			t.Fatal("the revoked key passes")
		}
	}
	testkit.Eventually(t, "the gate uses the promoted server", func() bool { return allowed(e.gate, other) })
	if allowed(e.gate, key) {
		t.Fatal("the revoked key passes on the promoted server")
	}
}

func TestRestartWithOldDataRevivesNoKey(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t)
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:"})
	key := e.create(t, "")
	if !allowed(e.gate, key) {
		t.Fatal("refused")
	}
	check.NoError(t, own.Admin().Save(t.Context()).Err())
	check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
	own.Kill()
	own.Start() // with the data of before the revocation
	for range 5 {
		if allowed(e.gate, key) {
			t.Fatal("the revoked key passes")
		}
	}
}

func TestPodLeftOnADeposedMasterRefusesARevokedKey(t *testing.T) {
	t.Parallel()
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	e := newEnvOn(t, clientOf(t, first), gatetest.Config{Prefix: "p:"})
	key := e.create(t, "")
	if !allowed(e.gate, key) {
		t.Fatal("refused")
	}
	replicate(t, first, second)
	promote(t, second)
	gatetest.Start(t, e.pool, clientOf(t, second), gatetest.Config{Prefix: "p:"})
	check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
	if allowed(e.gate, key) {
		t.Error("the pod on the old master lets it pass")
	}
}

// TestPodsThatUseRedisOtherwiseDoNotMissARevocation: one pod uses a server as a single one, another as a Cluster of one. The
// second has no lease, so it needs the number that the first tells Redis.
func TestPodsThatUseRedisOtherwiseDoNotMissARevocation(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t, "--cluster-enabled", "yes")
	admin := own.Admin()
	check.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testkit.Eventually(t, "the cluster is whole", func() bool {
		return strings.HasPrefix(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	options := &redis.UniversalOptions{Addrs: []string{own.Address()}, IsClusterMode: true}
	gatetest.PatientClient(options)
	cluster := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = cluster.Close() })
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:"})
	proxy := testkit.StartProxy(t, e.pool.Config().ConnString(), testkit.ProxyOptions{})
	pod := gatetest.Start(t, testkit.Open(t, proxy.URL), cluster, gatetest.Config{Prefix: "p:"})
	key := e.create(t, "")
	if !allowed(pod, key) {
		t.Fatal("refused")
	}
	proxy.Cut(true)
	testkit.Eventually(t, "the lease is over", func() bool { return !pod.Directory.Leased() })
	testkit.Eventually(t, "the key passes by the number in Redis", func() bool { return allowed(pod, key) })
	check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
	if allowed(pod, key) {
		t.Error("the pod that uses a Cluster lets the key pass")
	}
}
