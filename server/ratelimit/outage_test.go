package ratelimit_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

type manualClock struct{ passed atomic.Int64 }

func (c *manualClock) now() time.Time { return time.Unix(1_800_000_000, c.passed.Load()) }

func TestPodGrantsItsShareWhileRedisIsDown(t *testing.T) {
	for name, stop := range map[string]func(*testkit.RedisServer) (start func()){
		"killed": func(s *testkit.RedisServer) func() { s.Kill(); return s.Start },
		"paused": func(s *testkit.RedisServer) func() { s.Pause(); return s.Resume },
	} {
		t.Run(name, func(t *testing.T) {
			server := testkit.StartRedis(t)
			var clock manualClock
			cfg := ratelimit.Config{Pods: func() int { return 4 }, Now: clock.now}
			l := newLimiter(t, cfg, open(t, "redis://"+server.Address(), ratelimit.ClientOptions))
			run(t, l)
			r := rate(t, 40, time.Second, 40)
			testkit.Eventually(t, "Redis is used", func() bool { return !take(t, l, id(0), r).Local })
			start := stop(server)
			var allowed, answered atomic.Int32
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					answered.Add(1)
					if take(t, l, id(1), r).Allowed {
						allowed.Add(1)
					}
				})
			}
			group.Wait()
			if !l.Degraded() || allowed.Load() != 10 {
				t.Errorf("degraded %v, %d of %d allowed; want 10", l.Degraded(), allowed.Load(), answered.Load())
			}
			got := take(t, l, id(1), r)
			if got.Allowed || !got.Local || got.NextToken < 99*time.Millisecond || got.NextToken > 101*time.Millisecond {
				t.Errorf("got %+v, want the next token of a tenth of a second", got)
			}
			clock.passed.Add(int64(got.NextToken) + 1)
			if got := take(t, l, id(1), r); !got.Allowed {
				t.Errorf("after that: got %+v", got)
			}
			newPod := newLimiter(t, cfg, open(t, "redis://"+server.Address(), ratelimit.ClientOptions))
			passed := 0
			for range 100 {
				if take(t, newPod, id(1), r).Allowed {
					passed++
				}
			}
			check.Equal(t, passed, 10, "requests granted by a pod started meanwhile")
			start()
			testkit.Eventually(t, "Redis is used again", func() bool { return !take(t, l, id(0), r).Local })
		})
	}
}

func TestLocalBucketFollowsTheNumberOfPods(t *testing.T) {
	var pods atomic.Int64
	pods.Store(2)
	var clock manualClock
	server := testkit.StartRedis(t)
	server.Kill()
	l := newLimiter(t, ratelimit.Config{Pods: func() int { return int(pods.Load()) }, Now: clock.now},
		open(t, "redis://"+server.Address(), ratelimit.ClientOptions))
	r := rate(t, 60, time.Minute, 60)
	if got := take(t, l, id(1), r); !got.Allowed || got.Remaining != 29 {
		t.Errorf("two pods: got %+v", got)
	}
	pods.Store(6)
	if got := take(t, l, id(1), r); !got.Allowed || got.Remaining != 9 {
		t.Errorf("six pods: got %+v", got)
	}
	pods.Store(0)
	if got := take(t, l, id(2), r); !got.Allowed || got.Remaining != 59 {
		t.Errorf("an unknown number of pods: got %+v", got)
	}
	if got := take(t, l, id(3), rate(t, 1, time.Hour, 1)); !got.Allowed || got.Remaining != 0 {
		t.Errorf("a burst of one: got %+v", got)
	}
}

func TestFullRedisIsAnOutage(t *testing.T) {
	server := testkit.StartRedis(t, "--maxmemory-policy", "noeviction")
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience}, open(t, "redis://"+server.Address(), patientOptions))
	run(t, l)
	admin := server.Admin()
	r := rate(t, 1, time.Hour, 1000)
	take(t, l, id(1), r)
	admin.ConfigSet(t.Context(), "maxmemory", "1")
	if got := take(t, l, id(1), r); !got.Allowed || !got.Local {
		t.Errorf("got %+v", got)
	}
	admin.ConfigSet(t.Context(), "maxmemory", "0")
	testkit.Eventually(t, "Redis is used again", func() bool { return !take(t, l, id(1), r).Local })
}

func TestClusterServesManyBucketsAtOnce(t *testing.T) {
	rdb := open(t, "cluster://"+testkit.StartCluster(t), patientOptions)
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience, InFlight: 1}, rdb)
	run(t, l)
	r := rate(t, 2, time.Hour, 2)
	const buckets = 40
	for round := range 2 {
		var allowed, local atomic.Int32
		var group sync.WaitGroup
		for i := range 3 * buckets {
			group.Go(func() {
				got := take(t, l, id(i%buckets), r)
				if got.Allowed {
					allowed.Add(1)
				}
				if got.Local {
					local.Add(1)
				}
			})
		}
		group.Wait()
		if want := int32(2 * buckets * (1 - round)); allowed.Load() != want || local.Load() != 0 {
			t.Errorf("round %d: %d allowed, want %d; %d local, want none", round, allowed.Load(), want, local.Load())
		}
	}
}

func TestSentinelFailOverCostsNoError(t *testing.T) {
	testkit.Soak(t)
	master, replica := testkit.StartRedis(t), testkit.StartRedis(t)
	admin := replica.Admin()
	check.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", master.Port()).Err())
	testkit.Eventually(t, "the replica has all", func() bool {
		return strings.Contains(admin.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	guarded := testkit.StartSentinels(t, master, replica, testkit.Watch{
		Name: "buckets", Sentinels: 1, Quorum: 1, Down: 300 * time.Millisecond, Failover: 2 * time.Second,
	})
	sentinel := guarded.Sentinels[0]
	watch := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Address()})
	defer func() { _ = watch.Close() }()
	testkit.Eventually(t, "the Sentinel knows the replica", func() bool {
		replicas, err := watch.Replicas(t.Context(), "buckets").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave"
	})
	l := newLimiter(t, ratelimit.Config{}, open(t, "sentinel://"+sentinel.Address()+"/buckets", ratelimit.ClientOptions))
	run(t, l)
	r := rate(t, 1, time.Second, 1_000_000)
	testkit.Eventually(t, "Redis is used", func() bool { return !take(t, l, id(1), r).Local })
	master.Kill()
	if got := take(t, l, id(1), r); !got.Allowed || !got.Local {
		t.Errorf("got %+v", got)
	}
	testkit.Eventually(t, "the replica is used", func() bool { return !take(t, l, id(1), r).Local })
	address, err := watch.GetMasterAddrByName(t.Context(), "buckets").Result()
	if err != nil || net.JoinHostPort(address[0], address[1]) != replica.Address() {
		t.Errorf("the master is %v, %v", address, err)
	}
}

// TestFailedCallIsChargedOnce: Redis takes the token of a call whose reply is lost. The call is not sent again.
func TestFailedCallIsChargedOnce(t *testing.T) {
	server := testkit.StartRedis(t)
	var lose atomic.Bool
	proxy := testkit.StartProxy(t, server.URL(), testkit.ProxyOptions{Forward: func(server io.Writer, client io.Reader, mute func()) {
		buffer := make([]byte, 4096)
		for {
			n, err := client.Read(buffer)
			if lose.Load() && bytes.Contains(buffer[:n], []byte("evalsha")) { // not the greeting of a new connection
				mute()
			}
			if _, failed := server.Write(buffer[:n]); failed != nil || err != nil {
				return
			}
		}
	}})
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience}, open(t, proxy.URL, patientOptions))
	r := rate(t, 30, 700*time.Hour, 30)
	check.Equal(t, take(t, l, id(1), r).Remaining, 29, "tokens left of 30")
	before := server.Calls("evalsha")
	lose.Store(true)
	answer := make(chan ratelimit.Result, 1)
	go func() { answer <- take(t, l, id(1), r) }()
	testkit.Eventually(t, "Redis has run the call", func() bool { return server.Calls("evalsha") > before })
	lose.Store(false)
	proxy.Cut(false) // the connection ends without a reply
	if got := testkit.Receive(t, answer, "the request is answered"); !got.Allowed || !got.Local {
		t.Errorf("a call without a reply: got %+v", got)
	}
	direct := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience}, open(t, server.URL(), patientOptions))
	check.Equal(t, take(t, direct, id(1), r).Remaining, 27, "tokens left of 30 after three calls")
}

// TestForgottenScriptCostsNoRequest: Redis forgets its scripts while 64 clients use four limiters. A limiter sends the text again
// for the calls that are under way then, and for no others.
func TestForgottenScriptCostsNoRequest(t *testing.T) {
	const inFlight, limiters, times = 2, 4, 10
	server := testkit.StartRedis(t)
	var all []*ratelimit.Limiter
	for range limiters {
		all = append(all, newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience, InFlight: inFlight}, open(t, server.URL(), patientOptions)))
	}
	r := rate(t, 1_000_000, time.Second, 1_000_000)
	var passed, refused atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := take(t, all[i%limiters], id(1), r); got.Allowed && !got.Local {
					passed.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	more := func() {
		before := passed.Load()
		testkit.Eventually(t, "tokens are taken", func() bool { return passed.Load() > before+200 })
	}
	admin := server.Admin()
	more()
	texts := server.Calls("eval")
	for range times {
		check.NoError(t, admin.ScriptFlush(t.Context()).Err())
		more()
	}
	close(stop)
	group.Wait()
	texts = server.Calls("eval") - texts
	if texts < times || texts > times*inFlight*limiters {
		t.Errorf("%d texts sent after %d flushes, by %d limiters", texts, times, limiters)
	}
	check.Equal(t, refused.Load(), 0, "requests refused or decided without Redis, of %d", passed.Load())
}
