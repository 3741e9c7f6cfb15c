package gate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// sentinelName is the name under which Sentinels know their master.
const sentinelName = "gates"

// guarded is a Redis and its replica, watched by three Sentinels of which two must agree that the master is down.
type guarded struct {
	*testkit.Guarded

	t *testing.T
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	master, replica := testkit.StartRedis(t), testkit.StartRedis(t)
	g := &guarded{t: t}
	g.follow(replica, master)
	g.Guarded = testkit.StartSentinels(t, master, replica, testkit.Watch{
		Name: sentinelName, Sentinels: 3, Quorum: 2, Down: 300 * time.Millisecond, Failover: 1800 * time.Millisecond,
	})
	g.whole()
	return g
}

// must does something that has to succeed in time.
func (g *guarded) must(do func(context.Context) error) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.t.Context()), testkit.Patience)
	defer cancel()
	check.NoError(g.t, do(ctx))
}

func (g *guarded) follow(node, master *testkit.RedisServer) {
	g.t.Helper()
	g.must(func(ctx context.Context) error { return node.Follow(ctx, master) })
}

func (g *guarded) master() (master, replica *testkit.RedisServer) {
	g.t.Helper()
	testkit.Eventually(g.t, "a Sentinel names the master", func() (ok bool) {
		var err error
		master, replica, err = g.Master(context.Background())
		return err == nil
	})
	return master, replica
}

// whole returns when each Sentinel knows the others and the replica, and the replica has all data: a failover is possible
// then. The replica is asked itself, since Sentinels ask only every ten seconds.
func (g *guarded) whole() {
	g.t.Helper()
	testkit.Eventually(g.t, "the replica has all", func() bool {
		_, replica := g.master() // each time: a blink can have been too long for the Sentinels
		admin := replica.Admin()
		defer func() { _ = admin.Close() }()
		return strings.Contains(admin.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	testkit.Eventually(g.t, "the Sentinels see each other and the replica", func() bool {
		return g.Ask(func(s *redis.SentinelClient) error {
			others, err := s.Sentinels(context.Background(), sentinelName).Result()
			if err != nil {
				return err
			}
			replicas, err := s.Replicas(context.Background(), sentinelName).Result()
			if err == nil && (len(others) != len(g.Sentinels)-1 || len(replicas) != 1 || replicas[0]["flags"] != "slave") {
				err = errors.New("it does not see all of them")
			}
			return err
		}) == nil
	})
}

// failOver stops the master until the replica is promoted. A killed master comes back with the data that it had saved. A
// paused one comes back with all its data, and as a master.
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
	g.must(func(ctx context.Context) error { return g.Moved(ctx, master) })
	if kill {
		master.Start()
	} else {
		master.Resume()
	}
	g.follow(master, replica)
}

// blink stops the master for a shorter time than the Sentinels notice.
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

// TestNoRequestPassesAfterARevocationThroughFailOvers: 64 clients use one key on four pods. It is created, used and
// revoked over and over, while Sentinels fail over between two real servers and either comes back with its data.
func TestNoRequestPassesAfterARevocationThroughFailOvers(t *testing.T) {
	testkit.Soak(t)
	const every = 4 // revocations from one accident to the next, of which there are four kinds
	revocations := int(testkit.Size(t, revocationsVariable, 2*every))
	guard := startGuarded(t)
	// The pods reach their Redis by the Sentinels' URL, as in production.
	e, pods := productionPods(t, func() redis.UniversalClient { return testkit.OpenRedis(t, guard.URL(), ratelimit.ClientOptions) })
	accidents := []func(){
		func() { guard.failOver(false) }, func() { guard.failOver(true) },
		func() { guard.blink(false) }, func() { guard.blink(true) },
	}
	accident := make(chan struct{})
	close(accident)
	revokeUnderLoad(t, e, pods, 64, revocations, func(i int) {
		switch {
		case i == revocations:
			<-accident
		case i%every == every/2:
			<-accident // the one before is over
			guard.whole()
			next := accidents[i/every%len(accidents)]
			if i/every >= len(accidents) {
				next = accidents[rand.IntN(len(accidents))]
			}
			accident = make(chan struct{})
			go func(over chan struct{}) { defer close(over); next() }(accident)
		}
	})
}
