package gate_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// remote is an environment with a second pod that reaches PostgreSQL and Redis through proxies.
type remote struct {
	*env

	pod             *gatetest.Pod
	own             *testkit.RedisServer
	postgres, redis *testkit.Proxy
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	own := testkit.StartRedis(t)
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:"})
	r := &remote{
		env: e, own: own, postgres: testkit.StartProxy(t, e.pool.Config().ConnString(), testkit.ProxyOptions{}),
		redis: testkit.StartProxy(t, own.URL(), testkit.ProxyOptions{}),
	}
	r.pod = gatetest.Start(t, testkit.Open(t, r.postgres.URL), testkit.OpenRedis(t, r.redis.URL, gatetest.PatientClient),
		gatetest.Config{Prefix: "p:", Clock: e.clock})
	return r
}

// endLease ends the lease of a pod that cannot renew it in time.
func (e *env) endLease(t testing.TB, pod *gatetest.Pod) {
	t.Helper()
	testkit.Eventually(t, "the lease is over", func() bool {
		e.clock.Pass(3 * time.Second)
		return !pod.Directory.Leased()
	})
}

// passesByRedis returns when a pod without a lease accepts a key by the number in Redis.
func passesByRedis(t testing.TB, pod *gatetest.Pod, key keys.CreatedKey) {
	t.Helper()
	testkit.Eventually(t, "the key passes by the number in Redis", func() bool { return allowed(pod, key) })
	if pod.Directory.Leased() {
		t.Error("the pod has a lease")
	}
}

// revokeWithout revokes a key although one of two pods is silent.
func (e *env) revokeWithout(t testing.TB, key keys.CreatedKey) {
	t.Helper()
	e.clock.PassWhile(t, e.pool, 1, func() { e.revoke(t, key) })
}

// cut is what happens to the remote pod.
type cut struct {
	do func(*remote)
	// late: the revocation follows the end of the lease. accepts: the pod then accepts known keys. silent: requests that read
	// Redis have no answer until the pod reaches it again.
	late, accepts, silent bool
}

// TestRevocationHoldsWhileAPodIsCutOff: clients use the key on both pods.
func TestRevocationHoldsWhileAPodIsCutOff(t *testing.T) {
	t.Parallel()
	fromPostgres := func(r *remote) { r.postgres.Cut(true) }
	fromBoth := func(r *remote) { r.postgres.Cut(true); r.redis.Cut(true) }
	for name, c := range map[string]cut{
		"from PostgreSQL":                         {do: fromPostgres},
		"from PostgreSQL, without a lease":        {do: fromPostgres, late: true, accepts: true},
		"from PostgreSQL, which is silent":        {do: func(r *remote) { r.postgres.Silence() }},
		"from PostgreSQL, which answers too late": {do: func(r *remote) { r.postgres.Delay(200 * time.Millisecond) }, late: true},
		"from Redis":                              {do: func(r *remote) { r.redis.Cut(true) }},
		"from both stores":                        {do: fromBoth},
		"from both stores, without a lease":       {do: fromBoth, late: true},
		"from both stores, which are silent":      {do: func(r *remote) { r.postgres.Silence(); r.redis.Silence() }, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t)
			r.endless(t)
			key := r.create(t, "endless")
			l := startLoad(t, []*gatetest.Pod{r.gate, r.pod}, 8, key)
			for round := range int(testkit.Size(t, cutsVariable, 1)) {
				l.used(t, 20)
				if !allowed(r.pod, key) {
					t.Fatal("the pod refuses the key")
				}
				r.revokeWhileCutOff(t, c, l, key)
				expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), address(round)), gate.Unauthorized, "afterwards")
				key = r.create(t, "endless")
				l.use(key)
			}
			l.end(t)
		})
	}
}

// revokeWhileCutOff revokes the key of the load while the pod is cut off, and returns when the pod has a lease again.
func (r *remote) revokeWhileCutOff(t *testing.T, c cut, l *load, key keys.CreatedKey) {
	t.Helper()
	const requests = 20
	c.do(r)
	if c.late {
		r.endLease(t, r.pod)
	}
	if c.accepts {
		passesByRedis(t, r.pod, key)
	}
	r.revokeWithout(t, key)
	l.revoked()
	answers := make(chan gate.Decision, requests)
	for range requests {
		go func() { answers <- r.pod.Check(t.Context(), bearer(key.Key), client) }()
	}
	refused := func() {
		for range requests {
			if d := testkit.Receive(t, answers, "a request is answered"); d.Outcome == gate.Allowed {
				t.Errorf("after the answer: got %+v", d)
			}
		}
	}
	if !c.silent {
		refused()
	}
	r.postgres.Delay(0)
	r.postgres.Cut(false)
	r.redis.Cut(false)
	if c.silent {
		refused()
	}
	testkit.Eventually(t, "the pod has a lease", r.pod.Directory.Leased)
}

// cutsVariable sets how often each pod is cut off, and PostgreSQL restarted.
const cutsVariable = "GATE_TEST_CUTS"

func TestWithoutPostgresKnownKeysPass(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	r.endless(t)
	key := r.create(t, "endless")
	r.postgres.Cut(true)
	r.endLease(t, r.pod)
	passesByRedis(t, r.pod, key)
	for range 20 {
		expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), client), gate.Allowed, "a known key")
	}
	check.NoError(t, r.pod.Directory.Ready(t.Context()))
	for name, c := range map[string]struct {
		header []byte
		want   gate.Outcome
	}{
		"unknown":   {bearer(neverIssued), gate.Unavailable}, // and costs a token of the address
		"malformed": {bearer("service_123"), gate.Unauthorized},
		"missing":   {nil, gate.Unauthorized},
	} {
		expectOutcome(t, r.pod.Check(t.Context(), c.header, netip.MustParseAddr("198.51.100.1")), c.want, "%s", name)
	}
	r.revokeWithout(t, key)
	expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), client), gate.Unavailable, "revoked while the pod cannot reach PostgreSQL")
	if r.pod.Directory.Ready(t.Context()) == nil {
		t.Error("the pod is ready although Redis has a newer change")
	}
	r.postgres.Cut(false)
	testkit.Eventually(t, "the pod has a lease again", r.pod.Directory.Leased)
	expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), client), gate.Unauthorized, "afterwards")
}

// TestWithoutPostgresUnknownKeysCostTokensOfTheAddress: the pod cannot say that they are invalid, but it limits them.
func TestWithoutPostgresUnknownKeysCostTokensOfTheAddress(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	key := r.create(t, "")
	r.postgres.Cut(true)
	r.endLease(t, r.pod)
	passesByRedis(t, r.pod, key)
	ask := func(client string) gate.Decision {
		return r.pod.Check(t.Context(), bearer(neverIssued), netip.MustParseAddr(client))
	}
	for left := 119; left >= 0; left-- {
		if d := ask("198.51.100.1"); d.Outcome != gate.Unavailable || d.OfKey || d.Limit != 120 || d.RetryAfter < time.Second {
			t.Fatalf("a made-up key, %d tokens left: %+v", left, d)
		}
	}
	testkit.Eventually(t, "the address has no token left", func() bool { return ask("198.51.100.1").Outcome == gate.Limited })
	expectOutcome(t, ask("198.51.100.2"), gate.Unavailable, "another address")
	if !allowed(r.pod, key) {
		t.Error("a known key is refused")
	}
}

func TestWithBothStoresAwayTheGateIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRemote(t)
	key := r.create(t, "")
	if !allowed(r.pod, key) {
		t.Fatal("the key is refused")
	}
	r.postgres.Cut(true)
	r.redis.Cut(true)
	r.endLease(t, r.pod)
	d := r.pod.Check(t.Context(), bearer(key.Key), client)
	if d.Outcome != gate.Unavailable || d.RetryAfter < time.Second || d.Limit != 120 || d.Remaining != 0 {
		t.Errorf("got %+v", d)
	}
	r.revokeWithout(t, key)
	expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), client), gate.Unavailable, "revoked")
}

// TestRevocationIsNotAnsweredBeforeRedisHasIt: a pod without a lease accepts the key by the number in Redis. Only the other pod
// has applied the revocation, and it cannot reach Redis.
func TestRevocationIsNotAnsweredBeforeRedisHasIt(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t)
	toRedis := testkit.StartProxy(t, own.URL(), testkit.ProxyOptions{})
	e := newEnvOn(t, testkit.OpenRedis(t, toRedis.URL, gatetest.PatientClient), gatetest.Config{Prefix: "p:"})
	toPostgres := testkit.StartProxy(t, e.pool.Config().ConnString(), testkit.ProxyOptions{})
	pod := gatetest.Start(t, testkit.Open(t, toPostgres.URL), clientOf(t, own), gatetest.Config{Prefix: "p:", Clock: e.clock})
	key := e.create(t, "")
	toPostgres.Cut(true)
	e.endLease(t, pod)
	passesByRedis(t, pod, key)
	toRedis.Cut(true)
	timings := gatetest.Timings()
	timings.Limit = directory.Production().Limit
	hasty := keys.NewStore(e.pool, directory.NewAuthor(e.pool, directory.AuthorConfig{Clock: e.clock.Read, Timings: timings}))
	var err error
	e.clock.PassWhile(t, e.pool, 1, func() { err = hasty.RevokeAny(patient(t), key.Prefix) })
	if _, ok := errors.AsType[*keys.UnconfirmedError](err); !ok {
		t.Errorf("got %v, want an UnconfirmedError", err)
	}
	if !allowed(pod, key) {
		t.Error("the pod refuses the key without a number in Redis")
	}
	toRedis.Cut(false)
	e.revoke(t, key)
	if allowed(pod, key) {
		t.Error("the pod accepts the key after the answer")
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
	pod := gatetest.Start(t, testkit.Open(t, proxy.URL), cluster, gatetest.Config{Prefix: "p:", Clock: e.clock})
	key := e.create(t, "")
	proxy.Cut(true)
	e.endLease(t, pod)
	passesByRedis(t, pod, key)
	e.revokeWithout(t, key)
	expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), client), gate.Unavailable, "at the pod that uses a Cluster")
}

// TestPodWithoutALeaseRefusesARevokedKeyOnceRedisIsToldAgain: Redis comes back without the number of the revocation. A pod that
// reaches both stores tells it again. Until then the stated exception of package directory holds.
func TestPodWithoutALeaseRefusesARevokedKeyOnceRedisIsToldAgain(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(t *testing.T, r *remote, revoke func()){
		"a restart with older data": func(t *testing.T, r *remote, revoke func()) {
			t.Helper()
			check.NoError(t, r.own.Admin().Save(t.Context()).Err())
			revoke()
			r.own.Kill()
			r.own.Start()
		},
		"a restart without data": func(t *testing.T, r *remote, revoke func()) {
			t.Helper()
			revoke()
			r.own.Kill()
			r.own.Start()
		},
		"a number that falls back": func(t *testing.T, r *remote, revoke func()) {
			t.Helper()
			before := r.own.Admin().Get(t.Context(), "p:keys:change").Val()
			revoke()
			check.NoError(t, r.own.Admin().Set(t.Context(), "p:keys:change", before, 0).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t)
			r.endless(t)
			key, other := r.create(t, "endless"), r.create(t, "endless")
			r.postgres.Cut(true)
			r.endLease(t, r.pod)
			passesByRedis(t, r.pod, key)
			back(t, r, func() { r.revokeWithout(t, key) })
			testkit.Exec(t, r.pool, "NOTIFY examprep_keys")
			testkit.Eventually(t, "a pod has told Redis again, and the revoked key is refused", func() bool { return !allowed(r.pod, key) })
			testkit.Eventually(t, "Redis has the newest number", func() bool {
				number, err := r.own.Admin().Get(t.Context(), "p:keys:change").Int64()
				return err == nil && number == testkit.Get[int64](t, r.pool, "SELECT max(number) FROM key_changes")
			})
			expectOutcome(t, r.pod.Check(t.Context(), bearer(key.Key), client), gate.Unavailable, "a revoked key")
			expectOutcome(t, r.pod.Check(t.Context(), bearer(other.Key), client), gate.Unavailable, "another key that the pod knows, since it may be revoked")
			expectOutcome(t, r.gate.Check(t.Context(), bearer(other.Key), client), gate.Allowed, "that key at the other pod")
		})
	}
}
