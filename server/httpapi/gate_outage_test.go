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
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	skipped  atomic.Int64 // by the clock of the gates' denials
	stopLoad chan struct{}
	loading  sync.WaitGroup

	mu  sync.Mutex
	log []answered
}

// newOutage returns two pods on one Redis. With production's limits a busy machine looks like an outage.
func newOutage(t *testing.T, production bool) *outage {
	t.Helper()
	o := &outage{
		api: newAPI(t, apitest.Options{}), stopLoad: make(chan struct{}),
		redis: testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always"), // its buckets outlive it
	}
	o.StopGate() // its pod would have a share of each bucket
	o.store = o.Keys
	if production {
		o.store = gatetest.NewStore(o.Pool, nil)
	}
	var directories []*directory.Directory
	for range outagePods {
		pod := o.variant(httpapi.Config{}, func(deps *httpapi.Deps) {
			pod := o.podGate(deps.Registerer, production)
			deps.Gate = pod
			// A record of each request in memory doubles now and then. That stops the process for seconds, and the pods lose their leases.
			deps.Logger = slog.New(slog.DiscardHandler)
			directories = append(directories, pod.Directory)
		})
		o.pods = append(o.pods, pod)
	}
	testkit.Eventually(t, "the pods know of each other", func() bool {
		return !slices.ContainsFunc(directories, func(d *directory.Directory) bool { return d.Pods() != outagePods })
	})
	return o
}

func (o *outage) podGate(registerer prometheus.Registerer, production bool) *gatetest.Pod {
	o.t.Helper()
	options := gatetest.PatientClient
	if production {
		options = ratelimit.ClientOptions
	}
	now := func() time.Time { return time.Now().Add(time.Duration(o.skipped.Load())) }
	return gatetest.Start(o.t, o.Pool, testkit.OpenRedis(o.t, o.redis.URL(), options), gatetest.Config{
		Prefix: "p:", Clock: o.Clock, Production: production, Gate: gate.Config{Registerer: registerer, Now: now},
		Limits: ratelimit.Config{Registerer: registerer},
	})
}

func (o *outage) issue(name string, tier keys.TierSpec) keys.CreatedKey {
	o.t.Helper()
	tier.Name = name
	check.NoError(o.t, o.store.ApplyTier(o.t.Context(), tier))
	issued, err := o.store.CreateFor(o.t.Context(), name, keys.NewKey{Tier: name})
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

// TestRedisKilledUnderLoadCostsNoRequestAndNoLimit kills Redis under two pods, and starts it again with its data. No request
// fails, not even one that was under way.
func TestRedisKilledUnderLoadCostsNoRequestAndNoLimit(t *testing.T) {
	t.Parallel()
	o := newOutage(t, false)
	endless := keys.TierSpec{Requests: 1_000_000, Period: time.Second}
	closed := o.issue("closed", keys.TierSpec{Requests: 20, Period: 700 * time.Hour})
	calm, doomed := o.issue("calm", endless), o.issue("doomed", endless)
	check.Equal(t, o.takeAll(closed.Key, 8), 8, "requests passed of the first 8")
	o.load(calm)
	o.answers(200)
	o.redis.Kill()
	o.degraded(1)
	o.answers(200)
	check.Equal(t, o.takeAll(closed.Key, 60), 20, "shares of a bucket of 20")
	check.NoError(t, o.store.RevokeAny(t.Context(), doomed.Prefix))
	for pod := range o.pods {
		a, _, err := o.ask(http.DefaultClient, pod, doomed.Key)
		check.NoError(t, err)
		check.Equal(t, a.status, http.StatusUnauthorized, "status of a revoked key at pod %d", pod)
	}
	o.redis.Start()
	o.degraded(0)
	o.answers(200)
	log := o.drain()
	check.Equal(t, count(log, func(a answered) bool { return a.status != http.StatusOK }), 0, "requests that failed of %d", len(log))
	o.skipped.Add(int64(time.Minute)) // no pod remembers a denial
	check.Equal(t, o.takeAll(closed.Key, 60), 12, "requests passed of the 12 that Redis had left")
}

// TestRedisAwayUnderLoadCostsNoRequestAndNoLimit stops Redis under two pods with production's limits, and continues it.
func TestRedisAwayUnderLoadCostsNoRequestAndNoLimit(t *testing.T) {
	testkit.Soak(t)
	away := testkit.Duration(t, awayVariable, 2*time.Second)
	o := newOutage(t, true)
	busy := keys.TierSpec{Requests: 60, Period: time.Second, Burst: 30}
	busyKey := o.issue("busy", busy)
	closed := o.issue("closed", keys.TierSpec{Requests: 20, Period: 700 * time.Hour})
	calm := o.issue("calm", keys.TierSpec{Requests: 1_000_000, Period: time.Second})
	check.Equal(t, o.takeAll(closed.Key, 8), 8, "requests passed of the first 8")
	begin := time.Now()
	o.load(busyKey, calm)
	o.answers(200)
	leaving := time.Now()
	o.redis.Pause()
	left := time.Now()
	o.degraded(1)
	check.Equal(t, o.takeAll(closed.Key, 60), 20, "shares of a bucket of 20")
	<-time.After(away)
	back := time.Now()
	o.redis.Resume()
	o.degraded(0)
	recovered := time.Now()
	o.answers(200)
	log := o.drain()
	check.Equal(t, count(log, func(a answered) bool { return a.status >= http.StatusInternalServerError }), 0, "failures of %d requests", len(log))
	o.judgeShares(log, busy, busyKey.Key, left, back)
	seconds := func(from, to time.Time) float64 { return to.Sub(from).Seconds() * float64(busy.Requests) }
	most := float64(2*busy.Burst) + seconds(begin, time.Now()) + seconds(leaving, recovered)
	if n := count(log, func(a answered) bool { return a.key == busyKey.Key && a.status == http.StatusOK }); float64(n) > most {
		t.Errorf("%d passed in all, of a bucket and shares of %v", n, most)
	}
	// No request of this key was under way when Redis left or came back, so it is charged with its earlier requests only.
	o.skipped.Add(int64(time.Minute))
	check.Equal(t, o.takeAll(closed.Key, 60), 12, "requests passed of the 12 that Redis had left")
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
