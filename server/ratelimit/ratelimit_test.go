package ratelimit_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/batch"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func patientOptions(o *redis.UniversalOptions) {
	ratelimit.ClientOptions(o)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = testkit.Patience, testkit.Patience, testkit.Patience, testkit.Patience
}

func open(t testing.TB, url string, adjust func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	rdb, err := redisurl.Open(url, adjust)
	check.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func shared(t testing.TB) (redis.UniversalClient, string) {
	t.Helper()
	_, prefix := testkit.Redis(t)
	return open(t, testkit.RedisURL(t), patientOptions), prefix
}

func newLimiter(t testing.TB, cfg ratelimit.Config, rdb redis.UniversalClient) *ratelimit.Limiter {
	t.Helper()
	if cfg.Pods == nil {
		cfg.Pods = func() int { return 1 }
	}
	l := ratelimit.New(cfg, rdb)
	t.Cleanup(l.Close)
	return l
}

func run(t testing.TB, l *ratelimit.Limiter) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = l.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

func rate(t testing.TB, requests int, period time.Duration, burst int) ratelimit.Rate {
	t.Helper()
	r, err := ratelimit.NewRate(requests, period, burst)
	check.NoError(t, err)
	return r
}

func id(n int) (id ratelimit.ID) {
	binary.BigEndian.PutUint32(id[:], uint32(n)*2654435761) // spread over the hashes of a Cluster
	binary.BigEndian.PutUint64(id[4:], uint64(n))
	return id
}

func take(t testing.TB, l *ratelimit.Limiter, id ratelimit.ID, r ratelimit.Rate) ratelimit.Result {
	t.Helper()
	result, err := l.Take(t.Context(), id, r)
	check.NoError(t, err)
	return result
}

func TestBucketGrantsItsBurstAndThenItsRate(t *testing.T) {
	rdb, prefix := shared(t)
	l := newLimiter(t, ratelimit.Config{Prefix: prefix, CallTimeout: testkit.Patience}, rdb)
	r := rate(t, 3, time.Hour, 3)
	for i := range 3 {
		if got := take(t, l, id(1), r); !got.Allowed || got.Local || got.Remaining != 2-i {
			t.Fatalf("request %d: got %+v", i, got)
		}
	}
	got := take(t, l, id(1), r)
	if got.Allowed || got.Remaining != 0 || got.NextToken < 19*time.Minute || got.NextToken > 20*time.Minute || got.Full < 59*time.Minute || got.Full > time.Hour {
		t.Errorf("got %+v", got)
	}
	if got := take(t, l, id(2), r); !got.Allowed {
		t.Errorf("another bucket: got %+v", got)
	}
	if got := take(t, l, id(3), ratelimit.Rate{}); got.Allowed {
		t.Errorf("the zero rate: got %+v", got)
	}
}

func TestRaisedRateHoldsAtOnceAndTakenTokensStayTaken(t *testing.T) {
	rdb, prefix := shared(t)
	l := newLimiter(t, ratelimit.Config{Prefix: prefix, CallTimeout: testkit.Patience}, rdb)
	for range 2 {
		take(t, l, id(1), rate(t, 2, 700*time.Hour, 2))
	}
	if got := take(t, l, id(1), rate(t, 1000, 700*time.Hour, 1000)); !got.Allowed || got.Remaining != 997 {
		t.Errorf("got %+v", got)
	}
	if got := take(t, l, id(1), rate(t, 1, time.Hour, 2)); got.Allowed {
		t.Errorf("lowered below the tokens that were taken: got %+v", got)
	}
}

// TestConcurrentRequestsShareCallsAndTokens: Redis falls silent until all requests wait.
func TestConcurrentRequestsShareCallsAndTokens(t *testing.T) {
	server, registry := testkit.StartRedis(t), prometheus.NewRegistry()
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience, InFlight: 1, Registerer: registry},
		open(t, server.URL(), patientOptions))
	const requests, batch = 2000, 128
	r := rate(t, 1, time.Hour, requests/2)
	take(t, l, id(2), r)
	before := server.Calls("evalsha")
	server.Pause()
	defer server.Resume()
	var allowed atomic.Int32
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			if take(t, l, id(i%2), r).Allowed {
				allowed.Add(1)
			}
		})
	}
	testkit.Eventually(t, "the requests wait", func() bool {
		return testkit.Series(t, registry)["examprep_gate_queue_requests"][0].GetGauge().GetValue() >= requests-batch
	})
	server.Resume()
	group.Wait()
	check.Equal(t, allowed.Load(), requests, "requests allowed")
	if calls := server.Calls("evalsha") - before; calls > requests/batch+2 {
		t.Errorf("%d calls for %d requests", calls, requests)
	}
	if take(t, l, id(0), r).Allowed {
		t.Error("an empty bucket has a token")
	}
}

func TestLostScriptsAndBucketsCostNoRequest(t *testing.T) {
	server := testkit.StartRedis(t)
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience}, open(t, "redis://"+server.Address(), patientOptions))
	admin := server.Admin()
	r := rate(t, 1, time.Hour, 5)
	take(t, l, id(1), r)
	check.NoError(t, admin.ScriptFlush(t.Context()).Err())
	if got := take(t, l, id(1), r); got.Local || got.Remaining != 3 {
		t.Errorf("after the scripts were flushed: got %+v", got)
	}
	check.NoError(t, admin.FlushAll(t.Context()).Err())
	if got := take(t, l, id(1), r); got.Local || got.Remaining != 4 {
		t.Errorf("after the data were flushed: got %+v", got)
	}
}

func TestFullQueueRefuses(t *testing.T) {
	server := testkit.StartRedis(t)
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience, InFlight: 1}, open(t, "redis://"+server.Address(), patientOptions))
	r := rate(t, 1, time.Hour, 1000)
	take(t, l, id(1), r)
	server.Pause()
	defer server.Resume()
	var refused atomic.Int32
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 128 + 8192 + 19 { // a batch, the queue and some more
		group.Go(func() {
			_, err := l.Take(ctx, id(1), r)
			if _, ok := errors.AsType[*batch.FullError](err); ok {
				refused.Add(1)
			}
		})
	}
	testkit.Eventually(t, "most requests are refused", func() bool { return refused.Load() >= 18 })
	cancel()
	group.Wait()
}

// TestQueueHasRoomForEachConnection: no client whose requests wait keeps those of others from waiting.
func TestQueueHasRoomForEachConnection(t *testing.T) {
	const connections = 9000
	server := testkit.StartRedis(t)
	registry := prometheus.NewRegistry()
	l := newLimiter(t, ratelimit.Config{
		CallTimeout: testkit.Patience, InFlight: 1, Queue: connections, Registerer: registry,
	}, open(t, "redis://"+server.Address(), patientOptions))
	r := rate(t, 1, time.Hour, connections)
	take(t, l, id(1), r)
	server.Pause()
	var group sync.WaitGroup
	for n := range connections {
		group.Go(func() {
			if _, err := l.Take(t.Context(), id(1+n/(connections-1)), r); err != nil { // the last is another client's
				t.Errorf("request %d: %v", n, err)
			}
		})
	}
	testkit.Eventually(t, "all wait", func() bool {
		return testkit.Metric(t, registry, "examprep_gate_queue_requests", map[string]string{"store": "redis"}) >= connections-128
	})
	server.Resume()
	group.Wait()
}

// TestBucketNeedsAtMost100BytesOfRedis measures what a hundred thousand buckets add to a server of their own.
func TestBucketNeedsAtMost100BytesOfRedis(t *testing.T) {
	const buckets = 100_000
	server := testkit.StartRedis(t)
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience}, open(t, "redis://"+server.Address(), patientOptions))
	admin := server.Admin()
	used := func() int64 {
		stats, err := admin.InfoMap(t.Context(), "memory").Result()
		check.NoError(t, err)
		var n int64
		for _, c := range stats["Memory"]["used_memory"] {
			n = 10*n + int64(c-'0')
		}
		return n
	}
	r := rate(t, 1, time.Hour, 5)
	take(t, l, id(buckets), r)
	before := used()
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := worker; i < buckets; i += 64 {
				take(t, l, id(i), r)
			}
		})
	}
	group.Wait()
	if n := admin.HLen(t.Context(), "buckets").Val(); n != buckets+1 {
		t.Fatalf("%d buckets", n)
	}
	each := float64(used()-before) / buckets
	t.Logf("%.1f bytes of Redis a bucket", each)
	if each > 100 {
		t.Errorf("%.1f bytes a bucket, want at most 100", each)
	}
}

func TestPurgeDeletesFullBucketsOnly(t *testing.T) {
	server := testkit.StartRedis(t)
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience}, open(t, "redis://"+server.Address(), patientOptions))
	admin := server.Admin()
	slow, quick := rate(t, 1, time.Hour, 5), rate(t, 1000, time.Second, 5)
	for i := range 2000 {
		r := quick
		if i%100 == 0 {
			r = slow
		}
		take(t, l, id(i), r)
	}
	run(t, l)
	testkit.Eventually(t, "full buckets are deleted", func() bool { return admin.HLen(t.Context(), "buckets").Val() == 20 })
	check.Equal(t, take(t, l, id(100), slow).Remaining, 3, "requests remaining")
	if ttl := admin.TTL(t.Context(), "buckets").Val(); ttl < 6*24*time.Hour {
		t.Errorf("the hash expires in %s", ttl)
	}
}
