package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// newCluster starts a Cluster of two masters and returns a limiter's client of it.
func newCluster(t *testing.T) redis.UniversalClient {
	t.Helper()
	first, second := testkit.StartRedis(t, "--cluster-enabled", "yes"), testkit.StartRedis(t, "--cluster-enabled", "yes")
	a, b := first.Admin(), second.Admin()
	defer func() { _, _ = a.Close(), b.Close() }()
	for _, err := range []error{
		a.ClusterAddSlotsRange(t.Context(), 0, 8191).Err(),
		b.ClusterAddSlotsRange(t.Context(), 8192, 16383).Err(),
		b.Do(t.Context(), "cluster", "set-config-epoch", 2).Err(),
		a.Do(t.Context(), "cluster", "meet", "127.0.0.1", second.Port(), second.BusPort()).Err(),
	} {
		check.NoError(t, err)
	}
	for _, node := range []*redis.Client{a, b} {
		testkit.Eventually(t, "the cluster is whole", func() bool {
			shards, err := node.ClusterShards(t.Context()).Result()
			return err == nil && len(shards) == 2 && strings.HasPrefix(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		})
	}
	options := &redis.UniversalOptions{Addrs: []string{first.Address()}, IsClusterMode: true}
	gatetest.PatientClient(options)
	rdb := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// TestAClusterServesManyKeysAtOnce: buckets and the number of changes are on different masters.
func TestAClusterServesManyKeysAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnvOn(t, newCluster(t), gatetest.Config{Prefix: "p:", Limits: ratelimit.Config{InFlight: 1}})
	e.tier(t, keys.TierSpec{Name: "two", Requests: 2, Period: time.Hour})
	created := make([]keys.CreatedKey, 40)
	results := make(chan bool)
	for i := range created {
		created[i] = e.create(t, "two")
		for range 3 {
			go func() { results <- allowed(e.gate, created[i]) }()
		}
	}
	passed := 0
	for range 3 * len(created) {
		if <-results {
			passed++
		}
	}
	if passed != 2*len(created) {
		t.Errorf("%d passed, want %d", passed, 2*len(created))
	}
	testkit.Eventually(t, "the Cluster has the number of changes", func() bool {
		return e.rdb.Exists(t.Context(), "p:keys:change").Val() == 1
	})
	for _, key := range created[:5] {
		check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
		if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Unauthorized {
			t.Errorf("got %+v", d)
		}
	}
}
