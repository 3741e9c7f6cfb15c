package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
)

// fault is something that goes wrong with a store, and is repaired when inject returns.
type fault struct {
	name   string
	inject func(context.Context) error
}

// chaos injects faults and counts them.
type chaos struct {
	postgres *testkit.PostgresServer
	redis    *privateRedises
	workers  *workerProcesses
	course   *course
	chance   *rand.Rand
	away     time.Duration
	logf     func(format string, args ...any)
	began    time.Time

	mu       sync.Mutex
	injected map[string]int
}

// kinds are the ways in which the stores fail.
func (c *chaos) kinds() []fault {
	return []fault{
		{"Redis killed, back empty", c.killRedis},
		{"Redis flushed", func(ctx context.Context) error { return c.redis.client.FlushAll(ctx).Err() }},
		{"Redis away", c.keepRedisAway},
		{"Redis killed, replica promoted", c.failOver},
		{"Redis fail-over asked for", c.askForFailOver},
		{"PostgreSQL restarted, fast", func(ctx context.Context) error { return c.postgres.Restart(ctx, syscall.SIGINT) }},
		{"PostgreSQL restarted, immediate", func(ctx context.Context) error { return c.postgres.Restart(ctx, syscall.SIGQUIT) }},
	}
}

func (c *chaos) note(name string) {
	c.mu.Lock()
	c.injected[name]++
	c.mu.Unlock()
	c.logf("%7.1fs %s", time.Since(c.began).Seconds(), name)
}

// schedule is each kind so many times, in an order of chance.
func (c *chaos) schedule(rounds int) (order []fault) {
	for range rounds {
		round := c.kinds()
		c.chance.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		order = append(order, round...)
	}
	return order
}

// upsetStores injects one fault after the other, spread over the course: events go on happening during each, up to the
// point of the next.
func (c *chaos) upsetStores(ctx context.Context, order []fault) error {
	share := c.course.goal / (len(order) + 1)
	for i, next := range order {
		c.course.allow((i + 2) * share)
		if !c.course.reach(ctx, (i+1)*share) {
			return ctx.Err()
		}
		c.note(next.name)
		if err := next.inject(ctx); err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
	}
	c.course.allow(c.course.goal)
	return nil
}

// upsetWorkers kills or stops a worker at so many points of the course.
func (c *chaos) upsetWorkers(ctx context.Context, times int, chance *rand.Rand) error {
	points := make([]int, times)
	for i := range points {
		points[i] = chance.IntN(c.course.goal)
	}
	slices.Sort(points)
	for i, point := range points {
		if !c.course.reach(ctx, point) {
			return ctx.Err()
		}
		slot := chance.IntN(len(c.workers.running))
		if i%2 == 0 {
			c.note("worker killed")
			c.workers.signal(slot, syscall.SIGKILL)
		} else {
			c.note("worker stopped")
			c.workers.signal(slot, syscall.SIGTERM)
		}
	}
	return nil
}

// killRedis brings the master back before the Sentinel misses it: the replica then forgets all as well.
func (c *chaos) killRedis(ctx context.Context) error {
	node, _, err := c.redis.Master(ctx)
	if err != nil {
		return err
	}
	node.Kill()
	if err := node.StartEmpty(ctx); err != nil {
		return err
	}
	return c.redis.writable(ctx)
}

func (c *chaos) keepRedisAway(ctx context.Context) error {
	for _, node := range c.redis.Nodes {
		node.Kill()
	}
	pause(ctx, c.away)
	for _, node := range c.redis.Nodes {
		if err := node.StartEmpty(ctx); err != nil {
			return err
		}
	}
	return c.redis.writable(ctx)
}

// failOver kills the master, and brings it back when the replica is in its place.
func (c *chaos) failOver(ctx context.Context) error {
	if err := c.redis.whole(ctx); err != nil {
		return err
	}
	node, _, err := c.redis.Master(ctx)
	if err != nil {
		return err
	}
	node.Kill()
	if err := c.redis.movedFrom(ctx, node); err != nil {
		return err
	}
	if err := node.StartEmpty(ctx); err != nil {
		return err
	}
	return c.redis.follow(ctx, node)
}

func (c *chaos) askForFailOver(ctx context.Context) error {
	if err := c.redis.whole(ctx); err != nil {
		return err
	}
	node, _, err := c.redis.Master(ctx)
	if err != nil {
		return err
	}
	// A Sentinel agrees and then gives up where the replica was away a moment ago: it is asked again.
	if err := testkit.Await(ctx, "the Sentinel fails over", func(ctx context.Context) error {
		if now, _, err := c.redis.Master(ctx); err != nil || now != node {
			return err
		}
		if err := c.redis.Ask(func(s *redis.SentinelClient) error { return s.Failover(ctx, sentinelMaster).Err() }); err != nil {
			return err
		}
		return c.redis.movedFrom(ctx, node)
	}); err != nil {
		return err
	}
	if err := c.redis.movedFrom(ctx, node); err != nil {
		return err
	}
	return c.redis.follow(ctx, node)
}

// sentinelMaster is the name under which the Sentinel knows its Redis.
const sentinelMaster = "chaos"

// privateRedises are a Redis with a replica and the Sentinel that watches them. Nothing of theirs survives a restart.
type privateRedises struct {
	*testkit.Guarded

	// client goes to whichever node is the master.
	client redis.UniversalClient
}

func startRedises(ctx context.Context, t *testing.T) *privateRedises {
	t.Helper()
	settings := []string{`save ""`, "appendonly no", "repl-diskless-sync-delay 0", "rdb-del-sync-files yes"}
	master := testkit.StartRedisFile(t, settings)
	replica := testkit.StartRedisFile(t, append(settings, "replicaof 127.0.0.1 "+master.Port()))
	r := &privateRedises{Guarded: testkit.StartSentinels(t, master, replica, testkit.Watch{
		Name: sentinelMaster, Sentinels: 1, Quorum: 1, Down: time.Second, Failover: 3 * time.Second,
	})}
	r.client = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: sentinelMaster, SentinelAddrs: []string{r.Sentinels[0].Address()},
	})
	t.Cleanup(func() { _ = r.client.Close() })
	if err := r.whole(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// writable returns when the master takes writes.
func (r *privateRedises) writable(ctx context.Context) error {
	return testkit.Await(ctx, "the master takes writes", func(ctx context.Context) error {
		return r.client.Set(ctx, "chaos:probe", "", time.Minute).Err()
	})
}

// whole returns when the master takes writes and the replica has them: a fail-over is possible then.
func (r *privateRedises) whole(ctx context.Context) error {
	if err := r.writable(ctx); err != nil {
		return err
	}
	return testkit.Await(ctx, "the Sentinel sees a replica in order", func(ctx context.Context) error {
		return r.Ask(func(sentinel *redis.SentinelClient) error {
			replicas, err := sentinel.Replicas(ctx, sentinelMaster).Result()
			if err != nil {
				return err
			}
			for _, replica := range replicas {
				if replica["flags"] == "slave" && replica["master-link-status"] == "ok" {
					return nil
				}
			}
			return errors.New("there is none")
		})
	})
}

// movedFrom returns when another node is the master and takes writes.
func (r *privateRedises) movedFrom(ctx context.Context, old *testkit.RedisServer) error {
	if err := r.Moved(ctx, old); err != nil {
		return err
	}
	return r.writable(ctx)
}

// follow makes a node the master's replica again.
func (r *privateRedises) follow(ctx context.Context, node *testkit.RedisServer) error {
	master, _, err := r.Master(ctx)
	if err != nil || master == node {
		return err
	}
	return node.Follow(ctx, master)
}
