package delivery

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
)

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
