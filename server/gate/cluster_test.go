package gate_test

import (
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
	options := &redis.UniversalOptions{Addrs: []string{testkit.StartCluster(t)}, IsClusterMode: true}
	gatetest.PatientClient(options)
	rdb := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

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
	check.Equal(t, passed, 2*len(created), "requests that passed")
	testkit.Eventually(t, "the Cluster has the number of changes", func() bool {
		return e.rdb.Exists(t.Context(), "p:keys:change").Val() == 1
	})
	for _, key := range created[:5] {
		check.NoError(t, e.store.Revoke(t.Context(), uuid.Nil, key.Prefix))
		expectOutcome(t, e.gate.Check(t.Context(), bearer(key.Key), client), gate.Unauthorized, "")
	}
}
