package gate_test

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/postgrestest"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/redisurl/redistest"
)

// sentinelName is the name under which Sentinels know their master.
const sentinelName = "gates"

// guarded is a Redis and its replica, watched by three Sentinels of which two must agree that the master is gone.
type guarded struct {
	t         *testing.T
	nodes     [2]*redistest.Server
	sentinels [3]*redistest.Server
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{t: t}
	for i := range g.nodes {
		g.nodes[i] = redistest.StartServer(t)
	}
	g.follow(g.nodes[1], g.nodes[0])
	for i := range g.sentinels {
		g.sentinels[i] = redistest.StartSentinel(t, sentinelName, g.nodes[0], 2, 300*time.Millisecond)
	}
	g.whole()
	return g
}

// url is how a pod names them.
func (g *guarded) url() string {
	addresses := make([]string, len(g.sentinels))
	for i, sentinel := range g.sentinels {
		addresses[i] = sentinel.Address()
	}
	return "sentinel://" + strings.Join(addresses, ",") + "/" + sentinelName
}

// each asks every Sentinel, and says whether all of them agree.
func (g *guarded) each(ask func(*redis.SentinelClient) bool) bool {
	for _, sentinel := range g.sentinels {
		client := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Address(), MaxRetries: -1})
		good := ask(client)
		_ = client.Close()
		if !good {
			return false
		}
	}
	return true
}

// master is the node that the first Sentinel takes for the master, and the other one.
func (g *guarded) master() (master, replica *redistest.Server) {
	g.t.Helper()
	var address []string
	postgrestest.Eventually(g.t, "a Sentinel names the master", func() bool {
		client := redis.NewSentinelClient(&redis.Options{Addr: g.sentinels[0].Address()})
		defer func() { _ = client.Close() }()
		var err error
		address, err = client.GetMasterAddrByName(context.Background(), sentinelName).Result()
		return err == nil
	})
	if net.JoinHostPort(address[0], address[1]) == g.nodes[0].Address() {
		return g.nodes[0], g.nodes[1]
	}
	return g.nodes[1], g.nodes[0]
}

// follow makes node a replica of master at once: a Sentinel does so for a node that came back, but in its own time.
func (g *guarded) follow(node, master *redistest.Server) {
	g.t.Helper()
	admin := node.Admin()
	defer func() { _ = admin.Close() }()
	postgrestest.Eventually(g.t, "the node follows", func() bool {
		return admin.ReplicaOf(context.Background(), "127.0.0.1", master.Port()).Err() == nil
	})
}

// whole returns when each Sentinel knows the others and the replica, and the replica has all: a fail-over is possible
// then. The replica is asked itself, since Sentinels ask only every ten seconds.
func (g *guarded) whole() {
	g.t.Helper()
	postgrestest.Eventually(g.t, "the replica has all", func() bool {
		_, replica := g.master() // each time: a blink may have been too long for the Sentinels after all
		admin := replica.Admin()
		defer func() { _ = admin.Close() }()
		return strings.Contains(admin.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	postgrestest.Eventually(g.t, "the Sentinels see each other and the replica", func() bool {
		return g.each(func(s *redis.SentinelClient) bool {
			others, err := s.Sentinels(context.Background(), sentinelName).Result()
			if err != nil || len(others) != len(g.sentinels)-1 {
				return false
			}
			replicas, err := s.Replicas(context.Background(), sentinelName).Result()
			return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave"
		})
	})
}

// moved returns when every Sentinel names another master than old.
func (g *guarded) moved(old *redistest.Server) {
	g.t.Helper()
	postgrestest.Eventually(g.t, "the Sentinels name another master", func() bool {
		return g.each(func(s *redis.SentinelClient) bool {
			address, err := s.GetMasterAddrByName(context.Background(), sentinelName).Result()
			return err == nil && address[1] != old.Port()
		})
	})
}

// failOver takes the master away for so long that the replica is promoted. Killed, it comes back with what it had saved;
// paused, with all that it held, as the master that it takes itself for.
func (g *guarded) failOver(kill bool) {
	g.t.Helper()
	master, replica := g.master()
	if kill {
		admin := master.Admin()
		_ = admin.Save(context.Background()).Err()
		_ = admin.Close()
		master.Kill()
	} else {
		master.Pause()
	}
	g.moved(master)
	if kill {
		master.Start()
	} else {
		master.Resume()
	}
	g.follow(master, replica)
}

// blink takes the master away for less than the Sentinels mind.
func (g *guarded) blink(kill bool) {
	g.t.Helper()
	master, _ := g.master()
	if kill {
		master.Kill()
		master.Start()
		return
	}
	master.Pause()
	master.Resume()
}

// guardedHouse is four pods that come to their Redis by the Sentinels' URL, as the product does.
func guardedHouse(t *testing.T, g *guarded, trust time.Duration) (*house, []*gate.Gate) {
	t.Helper()
	open := func() redis.UniversalClient {
		rdb, err := redisurl.Open(g.url(), gate.ClientOptions)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	settings := func(c *gate.Config) { c.Timeout, c.CallTimeout, c.Trust = 0, 0, trust }
	h := newHouseOn(t, open(), "p:", settings)
	pods := []*gate.Gate{h.gate}
	for range 3 {
		pods = append(pods, gate.New(gate.Config{Prefix: "p:", Trust: trust}, open(), keys.NewReader(h.pool)))
	}
	for _, pod := range pods {
		run(t, pod)
	}
	return h, pods
}

// TestNoRequestPassesAfterARevocationThroughFailOvers: 64 clients hammer one key on four pods, who is created, used and
// revoked over and over, while Sentinels fail over between two real servers and either comes back with what it held.
func TestNoRequestPassesAfterARevocationThroughFailOvers(t *testing.T) {
	if testing.Short() {
		t.Skip("fails over between servers for half a minute")
	}
	const every = 4 // revocations from one accident to the next, of which there are four kinds
	revocations, trust := size(t, revocationsVariable, 2*every), 2*time.Second
	if revocations < 100 {
		trust = time.Second // only how long a revocation waits while Redis is away
	}
	guard := startGuarded(t)
	h, pods := guardedHouse(t, guard, trust)
	h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	var present atomic.Pointer[epoch]
	key := h.create(t, "endless")
	present.Store(&epoch{header: bearer(key.Key)})
	stop := make(chan struct{})
	passed, wrong, wait := hammer(pods, &present, stop, 64)
	accidents := []func(){
		func() { guard.failOver(false) }, func() { guard.failOver(true) },
		func() { guard.blink(false) }, func() { guard.blink(true) },
	}
	accident := make(chan struct{})
	close(accident)
	for i := range revocations {
		before := passed.Load()
		postgrestest.Eventually(t, "the key is used", func() bool { return passed.Load() > before+20 })
		if i%every == every/2 {
			<-accident // the one before is over
			guard.whole()
			next := accidents[i/every%len(accidents)]
			if i/every >= len(accidents) {
				next = accidents[rand.IntN(len(accidents))]
			}
			accident = make(chan struct{})
			go func(over chan struct{}) { defer close(over); next() }(accident)
		}
		if err := h.store.Revoke(t.Context(), key.Prefix); err != nil {
			t.Fatal(err)
		}
		present.Load().answered.Store(true)
		key = h.create(t, "endless")
		present.Store(&epoch{header: bearer(key.Key)})
	}
	<-accident
	close(stop)
	wait()
	t.Logf("%d passed before %d revocations, %d after", passed.Load()-wrong.Load(), revocations, wrong.Load())
	if wrong.Load() > 0 {
		t.Errorf("%d of %d passed after the answer", wrong.Load(), passed.Load())
	}
}
