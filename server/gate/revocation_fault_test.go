package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const cutsVariable = "GATE_TEST_CUTS"

type course struct {
	*env

	t             *testing.T
	key           keys.CreatedKey
	present       atomic.Pointer[epoch]
	passed, wrong *atomic.Int64
	failed        int // changes that had to be tried again
	stop          func()
}

func startCourse(t *testing.T, e *env, pods []*gatetest.Pod, workers int) *course {
	t.Helper()
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	c := &course{env: e, t: t}
	c.next()
	stop := make(chan struct{})
	var wait func()
	c.passed, c.wrong, wait = hammer(pods, &c.present, stop, workers)
	c.stop = sync.OnceFunc(func() { close(stop); wait() })
	t.Cleanup(c.stop)
	return c
}

// try repeats a change until it succeeds. An error says that its result is unknown.
func (c *course) try(what string, change func(context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	check.NoError(c.t, testkit.Await(ctx, what, func(ctx context.Context) error {
		err := change(ctx)
		if err != nil {
			c.failed++
		}
		return err
	}))
}

func (c *course) next() {
	c.t.Helper()
	c.try("a key is created", func(ctx context.Context) (err error) {
		c.key, err = c.store.Create(ctx, keys.NewKey{Account: "acme", Tier: "endless"})
		return err
	})
	c.present.Store(&epoch{header: bearer(c.key.Key)})
}

func (c *course) used() {
	c.t.Helper()
	before := c.passed.Load()
	testkit.Eventually(c.t, "the key is used", func() bool { return c.passed.Load() > before+20 })
}

func (c *course) revoke() {
	c.t.Helper()
	c.try("the key is revoked", func(ctx context.Context) error { return c.store.Revoke(ctx, uuid.Nil, c.key.Prefix) })
	c.present.Load().answered.Store(true)
}

// end stops the workers and reports requests that passed too late.
func (c *course) end() {
	c.t.Helper()
	c.stop()
	c.t.Logf("%d passed, %d changes were tried again", c.passed.Load(), c.failed)
	if c.wrong.Load() > 0 {
		c.t.Errorf("%d of %d passed after the answer", c.wrong.Load(), c.passed.Load())
	}
}

// address returns a client address of its own: workers empty the bucket of client with revoked keys.
func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(n >> 8), byte(n)}) }

func TestRevocationHoldsWhilePostgresRestarts(t *testing.T) {
	t.Parallel()
	server, own := testkit.StartPostgres(t), testkit.StartRedis(t)
	check.NoError(t, postgres.Migrate(t.Context(), server.URL, postgres.Sandbox))
	pool := testkit.Open(t, server.URL)
	e := &env{pool: pool, store: keys.NewStore(pool, directory.NewAuthor(pool, directory.AuthorConfig{}))}
	var pods []*gatetest.Pod
	for range 4 {
		pods = append(pods, gatetest.Start(t, pool, clientOf(t, own), gatetest.Config{Prefix: "p:"}))
	}
	c := startCourse(t, e, pods, 16)
	for i := range int(testkit.Size(t, cutsVariable, 4)) {
		c.used()
		restarted := make(chan error, 1)
		go func() {
			mode := []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}[i%2]
			restarted <- server.Restart(t.Context(), mode)
		}()
		for over := false; !over; {
			select {
			case err := <-restarted:
				check.NoError(t, err)
				over = true
			default:
			}
			c.revoke()
			c.next()
		}
	}
	c.used()
	c.end()
	for i, pod := range pods {
		testkit.Eventually(t, "the pod has a lease", pod.Directory.Leased)
		if !allowed(pod, c.key) {
			t.Errorf("pod %d refuses the last key", i)
		}
	}
}

func TestRevocationHoldsWhileAPodIsCutOff(t *testing.T) {
	t.Parallel()
	fromPostgres := func(r *remote) { r.postgres.Cut(true) }
	fromBoth := func(r *remote) { r.postgres.Cut(true); r.redis.Cut(true) }
	for name, c := range map[string]struct {
		cut func(*remote)
		// late: the revocation follows the end of the lease. accepts: the pod then accepts known keys.
		late, accepts bool
	}{
		"from PostgreSQL":                         {cut: fromPostgres},
		"from PostgreSQL, without a lease":        {cut: fromPostgres, late: true, accepts: true},
		"from PostgreSQL, which is silent":        {cut: func(r *remote) { r.postgres.Silence() }},
		"from PostgreSQL, which answers 3 s late": {cut: func(r *remote) { r.postgres.Delay(3 * time.Second) }, late: true},
		"from Redis":                              {cut: func(r *remote) { r.redis.Cut(true) }},
		"from both stores":                        {cut: fromBoth},
		"from both stores, without a lease":       {cut: fromBoth, late: true},
		"from both stores, which are silent":      {cut: func(r *remote) { r.postgres.Silence(); r.redis.Silence() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t)
			course := startCourse(t, r.env, []*gatetest.Pod{r.gate, r.pod}, 8)
			for round := range int(testkit.Size(t, cutsVariable, 1)) {
				course.used()
				testkit.Eventually(t, "the pod accepts the key", func() bool { return allowed(r.pod, course.key) })
				c.cut(r)
				if c.late {
					r.awaitLeaseEnd(t)
				}
				if c.accepts {
					testkit.Eventually(t, "the pod accepts the key by the number in Redis", func() bool { return allowed(r.pod, course.key) })
				}
				course.revoke()
				for range 20 {
					if d := r.pod.Check(t.Context(), bearer(course.key.Key), client); d.Outcome == gate.Allowed {
						t.Fatalf("after the answer: got %+v", d)
					}
				}
				r.postgres.Delay(0)
				r.postgres.Cut(false)
				r.redis.Cut(false)
				testkit.Eventually(t, "the pod has a lease", r.pod.Directory.Leased)
				expectOutcome(t, r.pod.Check(t.Context(), bearer(course.key.Key), address(round)), gate.Unauthorized, "afterwards")
				course.next()
			}
			course.end()
		})
	}
}

// TestRevocationIsNotAnsweredBeforeRedisHasIt: a pod without a lease accepts the key by the number in Redis. Only the other pod
// has applied the revocation, and it cannot reach Redis.
func TestRevocationIsNotAnsweredBeforeRedisHasIt(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t)
	toRedis := testkit.StartProxy(t, own.URL(), testkit.ProxyOptions{})
	e := newEnvOn(t, testkit.OpenRedis(t, toRedis.URL, gatetest.PatientClient), gatetest.Config{Prefix: "p:"})
	toPostgres := testkit.StartProxy(t, e.pool.Config().ConnString(), testkit.ProxyOptions{})
	pod := gatetest.Start(t, testkit.Open(t, toPostgres.URL), clientOf(t, own), gatetest.Config{Prefix: "p:"})
	key := e.create(t, "")
	toPostgres.Cut(true)
	testkit.Eventually(t, "the lease is over", func() bool { return !pod.Directory.Leased() })
	testkit.Eventually(t, "the key passes by the number in Redis", func() bool { return allowed(pod, key) })
	toRedis.Cut(true)
	err := e.store.Revoke(t.Context(), uuid.Nil, key.Prefix)
	if _, ok := errors.AsType[*keys.UnconfirmedError](err); !ok {
		t.Errorf("got %v, want an UnconfirmedError", err)
	}
	if !allowed(pod, key) {
		t.Error("the pod refuses the key without a number in Redis")
	}
	toRedis.Cut(false)
	check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
	if allowed(pod, key) {
		t.Error("the pod accepts the key after the answer")
	}
}

// changesVariable sets the number of changes of keys, of which there are at most 500 a second.
const changesVariable = "GATE_TEST_CHANGES"

// churn makes n changes of the keys service_00000000 to service_000003e7, each in its own transaction, up to 500 a second.
func churn(t *testing.T, e *env, n int) (wait func()) {
	t.Helper()
	const writers = 5
	testkit.Exec(t, e.pool, `
		INSERT INTO api_keys (id, account_id, prefix, family_id, hash)
		SELECT g.id, a.id, 'service_' || lpad(to_hex(n), 8, '0'), g.id, sha256(convert_to(n::text, 'UTF8'))
		FROM accounts a, generate_series(0, 999) n, LATERAL (SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) g
		WHERE a.name = 'acme'`)
	start := time.Now()
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for i := writer; i < n; i += writers {
				<-time.After(time.Until(start.Add(time.Duration(i) * time.Second / 500))) // a late writer catches up
				_, err := e.pool.Exec(t.Context(), "UPDATE api_keys SET expires_at = now() + interval '1 day' WHERE prefix = $1",
					fmt.Sprintf("service_%08x", i%1000))
				if err != nil {
					t.Errorf("change %d: %v", i, err)
					return
				}
			}
		})
	}
	return func() {
		group.Wait()
		t.Logf("%d changes, %.0f a second", n, float64(n)/time.Since(start).Seconds())
	}
}

func TestManyChangesMakeNoRequestUnavailable(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t)}
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	steady := e.create(t, "endless")
	var asked, refused atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				asked.Add(1)
				if d := pods[i%len(pods)].Check(context.Background(), bearer(steady.Key), client); d.Outcome != gate.Allowed {
					refused.Add(1)
				}
			}
		})
	}
	changed := make(chan struct{})
	wait := churn(t, e, int(testkit.Size(t, changesVariable, 1500)))
	go func() { defer close(changed); wait() }()
	for round, over := 0, false; !over; round++ {
		select {
		case <-changed:
			over = true // this is the last round
		default:
		}
		key := e.create(t, "endless")
		for i, pod := range pods {
			expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), client), gate.Allowed, "pod %d, a new key", i)
		}
		check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
		for i, pod := range pods {
			expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), address(round)), gate.Unauthorized, "pod %d, a revoked key", i)
		}
	}
	close(stop)
	group.Wait()
	if refused.Load() > 0 || asked.Load() == 0 {
		t.Errorf("%d of %d requests with a valid key did not pass", refused.Load(), asked.Load())
	}
}
