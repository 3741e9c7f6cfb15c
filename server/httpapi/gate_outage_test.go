package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

const (
	// awayVariable sets the length of the outage of Redis (make soak: 60 s).
	awayVariable = "GATE_TEST_AWAY"
	// outageClients send at once, half of them to each of the pods.
	outageClients, outagePods = 16, 2
)

type answered struct {
	key          string
	pod          int
	begun, ended time.Time
	status       int
}

type outage struct {
	*api
	redis    *testkit.RedisServer
	pods     []*api
	store    *keys.Store
	stopLoad chan struct{}
	loading  sync.WaitGroup

	mu  sync.Mutex
	log []answered
}

func newOutage(t *testing.T, timeout time.Duration) *outage {
	t.Helper()
	o := &outage{
		api: newAPI(t, apitest.Options{}), stopLoad: make(chan struct{}),
		redis: testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always"), // its buckets outlive it
	}
	o.StopGate() // its pod would have a share of each bucket
	var directories []*directory.Directory
	for range outagePods {
		pod := o.variant(httpapi.Config{}, func(deps *httpapi.Deps) {
			pod := o.podGate(deps.Registerer, timeout)
			deps.Gate = pod
			// A record of each request in memory doubles now and then. That stops the process for seconds, and the pods lose their leases.
			deps.Logger = slog.New(slog.DiscardHandler)
			directories = append(directories, pod.Directory)
		})
		o.pods = append(o.pods, pod)
	}
	o.store = keys.NewStore(o.Pool, directory.NewAuthor(o.Pool, directory.AuthorConfig{}))
	testkit.Eventually(t, "the pods know of each other", func() bool {
		return !slices.ContainsFunc(directories, func(d *directory.Directory) bool { return d.Pods() != outagePods })
	})
	return o
}

func (o *outage) podGate(registerer prometheus.Registerer, timeout time.Duration) *gatetest.Pod {
	o.t.Helper()
	rdb := testkit.OpenRedis(o.t, o.redis.URL(), func(c *redis.UniversalOptions) {
		ratelimit.ClientOptions(c)
		if timeout > 0 {
			c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = timeout, timeout, timeout, timeout
		}
	})
	if timeout == 0 {
		timeout = 250 * time.Millisecond // the limiter's own
	}
	return gatetest.Start(o.t, o.Pool, rdb, gatetest.Config{
		Prefix: "p:", Gate: gate.Config{Registerer: registerer},
		Limits: ratelimit.Config{CallTimeout: timeout, Registerer: registerer},
	})
}

func (o *outage) issue(name string, tier keys.TierSpec) keys.CreatedKey {
	o.t.Helper()
	tier.Name = name
	check.NoError(o.t, o.store.ApplyTier(o.t.Context(), tier))
	issued, err := o.store.Create(o.t.Context(), keys.NewKey{Account: name, Tier: name})
	check.NoError(o.t, err)
	return issued
}

func (o *outage) ask(client *http.Client, pod int, key string) (answered, http.Header, error) {
	a := answered{key: key, pod: pod, begun: time.Now()}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+o.pods[pod].Address+"/v1/exam-prep/list", http.NoBody)
	if err != nil {
		return a, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	got, err := client.Do(request)
	if err != nil {
		return a, nil, fmt.Errorf("pod %d: %w", pod, err)
	}
	defer func() { _ = got.Body.Close() }()
	_, err = io.Copy(io.Discard, got.Body)
	a.ended, a.status = time.Now(), got.StatusCode
	return a, got.Header, err
}

// load has the clients send without a pause, each the keys in turn.
func (o *outage) load(issued ...keys.CreatedKey) {
	for i := range outageClients {
		o.loading.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for n := 0; ; n++ {
				select {
				case <-o.stopLoad:
					return
				default:
				}
				a, _, err := o.ask(client, i%outagePods, issued[n%len(issued)].Key)
				if err != nil {
					o.t.Error(err) // a pod also answers without Redis
					return
				}
				o.mu.Lock()
				o.log = append(o.log, a)
				o.mu.Unlock()
			}
		})
	}
}

func (o *outage) drain() []answered {
	close(o.stopLoad)
	o.loading.Wait()
	return o.log
}

func count(log []answered, match func(a answered) bool) (n int) {
	for _, a := range log {
		if match(a) {
			n++
		}
	}
	return n
}

func (o *outage) answers(n int) {
	o.t.Helper()
	total := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.log)
	}
	before := total()
	testkit.Eventually(o.t, "requests are answered", func() bool { return total() > before+n })
}

func (o *outage) degraded(yes float64) {
	o.t.Helper()
	for _, pod := range o.pods {
		testkit.Eventually(o.t, fmt.Sprintf("the pod says degraded = %v", yes), func() bool {
			return pod.metric("examprep_gate_degraded", nil) == yes
		})
	}
}

// pass returns when d has passed; d is not measured by, it is what the test is about.
func pass(d time.Duration) { <-time.After(d) }

// TestRedisAwayUnderLoadCostsNoRequestAndNoLimit takes Redis away from two pods under load, and brings it back.
func TestRedisAwayUnderLoadCostsNoRequestAndNoLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes Redis away for half a minute")
	}
	away := testkit.Duration(t, awayVariable, 2*time.Second)
	for name, c := range map[string]struct {
		leave, back func(*testkit.RedisServer)
		timeout     time.Duration
	}{
		"killed":      {(*testkit.RedisServer).Kill, (*testkit.RedisServer).Start, waitFor}, // a killed server refuses at once
		"falls quiet": {(*testkit.RedisServer).Pause, (*testkit.RedisServer).Resume, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, c.timeout)
			busy := keys.TierSpec{Requests: 60, Period: time.Second, Burst: 30}
			busyKey := o.issue("busy", busy)
			closed := o.issue("closed", keys.TierSpec{Requests: 20, Period: time.Hour})
			calm := o.issue("calm", keys.TierSpec{Requests: 1_000_000, Period: time.Second})
			doomed := o.issue("doomed", keys.TierSpec{Requests: 1_000_000, Period: time.Second})
			if taken := o.takeAll(closed.Key, 8); taken != 8 {
				t.Fatalf("%d of the first 8 passed", taken)
			}
			begin := time.Now()
			o.load(busyKey, calm, doomed)
			o.answers(200)

			leaving := time.Now()
			c.leave(o.redis)
			left := time.Now()
			o.degraded(1)
			o.answers(200)
			check.Equal(t, o.takeAll(closed.Key, 60), 20, "shares of a bucket of 20")
			check.Succeeds(t, o.store.Revoke(t.Context(), uuid.Nil, doomed.Prefix), "revoke")
			revoked := time.Now()
			pass(max(away-time.Since(left), 0))
			back := time.Now()
			c.back(o.redis)
			o.degraded(0)
			recovered := time.Now()
			o.answers(200)
			log := o.drain()

			o.judgeFailures(log, leaving, back, recovered)
			o.judgeShares(log, busy, busyKey.Key, left, back)
			seconds := func(from, to time.Time) float64 { return to.Sub(from).Seconds() * float64(busy.Requests) }
			most := float64(2*busy.Burst) + seconds(begin, time.Now()) + seconds(leaving, recovered)
			if n := count(log, func(a answered) bool { return a.key == busyKey.Key && a.status == http.StatusOK }); float64(n) > most {
				t.Errorf("%d passed in all, of a bucket and shares of %v", n, most)
			}
			if n := count(log, func(a answered) bool {
				return a.key == doomed.Key && a.begun.After(revoked) && a.status == http.StatusOK
			}); n > 0 {
				t.Errorf("%d passed after the revocation was answered", n)
			}
			// No request of this key was under way when Redis left or came back, so it is charged with its earlier requests only.
			taken := 0
			for range 8 { // a pod that remembers a denial lets one ask, and the others a moment later
				taken += o.takeAll(closed.Key, 6)
				pass(50 * time.Millisecond)
			}
			check.Equal(t, taken, 12, "requests passed of the 12 that Redis had left")
		})
	}
}

// judgeFailures: a request may fail where it was under way when Redis left or came back, one of each client, and one more
// of each that came before its pod noticed.
func (o *outage) judgeFailures(log []answered, leaving, back, recovered time.Time) {
	o.t.Helper()
	failed := func(from, to time.Time) int {
		return count(log, func(a answered) bool { return a.status >= 500 && !a.ended.Before(from) && a.begun.Before(to) })
	}
	all := count(log, func(a answered) bool { return a.status >= 500 })
	o.t.Logf("%d answers, %d of them failures", len(log), all)
	for edge, n := range map[string]int{"left": failed(leaving, back), "came back": failed(back, recovered)} {
		if n > 2*outageClients {
			o.t.Errorf("%d of %d requests failed when Redis %s", n, len(log), edge)
		}
	}
	if n := failed(recovered, time.Now()); n > outageClients || all > 4*outageClients {
		o.t.Errorf("%d failures, %d of them after the recovery", all, n)
	}
}

// judgeShares checks that each pod let pass a quarter to all of its share of the bucket and of its refill during the outage.
func (o *outage) judgeShares(log []answered, tier keys.TierSpec, key string, left, back time.Time) {
	o.t.Helper()
	most := (float64(tier.Burst) + float64(tier.Requests)*back.Sub(left).Seconds()) / outagePods
	for pod := range o.pods {
		n := count(log, func(a answered) bool {
			return a.key == key && a.pod == pod && a.status == http.StatusOK && a.begun.After(left) && a.ended.Before(back)
		})
		if float64(n) > most || float64(n) < most/4 {
			o.t.Errorf("pod %d let %d pass without Redis; its share was %v", pod, n, most)
		}
	}
}

func (o *outage) takeAll(key string, n int) (passed int) {
	o.t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := range n {
		a, header, err := o.ask(client, i%outagePods, key)
		check.NoError(o.t, err)
		switch a.status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
			if wait, _ := strconv.Atoi(header.Get("Retry-After")); wait < 1 {
				o.t.Errorf("429 with Retry-After %q", header.Get("Retry-After"))
			}
		default:
			o.t.Errorf("request %d: %d", i, a.status)
		}
	}
	return passed
}
