package gate_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// newCluster starts a Cluster of two masters and returns a gate's client of it.
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
			info := node.ClusterInfo(t.Context()).Val()
			return err == nil && len(shards) == 2 && len(info) > 16 && info[:16] == "cluster_state:ok"
		})
	}
	options := &redis.UniversalOptions{Addrs: []string{first.Address()}, IsClusterMode: true}
	patientOptions(options)
	rdb := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestAClusterServesManyKeysAtOnce(t *testing.T) {
	h := newHouseOn(t, newCluster(t), "p:", func(c *gate.Config) { c.InFlight = 1 })
	testkit.Run(t, h.gate.Run)
	h.tier(t, keys.TierSpec{Name: "two", Requests: 2, Period: time.Hour})
	issued := make([]keys.Issued, 40)
	results := make(chan bool)
	for i := range issued {
		issued[i] = h.create(t, "two")
		for range 3 {
			go func() { results <- allowed(h.gate, issued[i]) }()
		}
	}
	passed := 0
	for range 3 * len(issued) {
		if <-results {
			passed++
		}
	}
	if passed != 2*len(issued) {
		t.Errorf("%d passed of %d", passed, 2*len(issued))
	}
	for _, key := range issued[:5] {
		check.NoError(t, h.store.Revoke(t.Context(), key.Prefix))
		if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome == gate.Allowed {
			t.Errorf("got %+v", d)
		}
	}
}
