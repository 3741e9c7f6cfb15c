package gate_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func allowed(g *gate.Gate, key keys.Issued) bool {
	return g.Check(context.Background(), bearer(key.Key), client).Outcome == gate.Allowed
}

func TestWithoutRedisKeysAreCheckedInPostgresAndItRecoversByItself(t *testing.T) {
	own := testkit.StartRedis(t)
	registry := prometheus.NewRegistry()
	h := newHouseOn(t, clientOf(t, own), "p:", func(c *gate.Config) { c.Registerer = registry })
	testkit.Run(t, h.gate.Run)
	h.tier(t, keys.TierSpec{Name: "ten", Requests: 10, Period: time.Hour})
	key, doomed := h.create(t, "ten"), h.create(t, "ten")
	for range 4 {
		if !allowed(h.gate, key) {
			t.Fatal("refused with Redis there")
		}
	}
	own.Kill()
	passed := 0
	for range 30 {
		if allowed(h.gate, key) {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("the only pod's share is the whole bucket: %d passed of 10", passed)
	}
	if degraded(t, registry) != 1 {
		t.Error("examprep_gate_degraded does not say so")
	}
	if !allowed(h.gate, doomed) {
		t.Fatal("the other key is refused")
	}
	if err := h.store.Revoke(t.Context(), doomed.Prefix); err != nil {
		t.Fatalf("revoke without Redis: %v", err)
	}
	if d := h.gate.Check(t.Context(), bearer(doomed.Key), client); d.Outcome != gate.Unauthorized {
		t.Errorf("revoked without Redis: got %+v", d)
	}
	own.Start()
	testkit.Eventually(t, "the gate uses Redis again", func() bool { return degraded(t, registry) == 0 })
	if d := h.gate.Check(t.Context(), bearer(doomed.Key), client); d.Outcome != gate.Unauthorized {
		t.Errorf("revoked, after recovery: got %+v", d)
	}
	if !allowed(h.gate, h.create(t, "ten")) {
		t.Error("a new key is refused after recovery")
	}
}

func degraded(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	return testkit.Series(t, registry)["examprep_gate_degraded"][0].GetGauge().GetValue()
}

func TestEveryMetricHasAHelpAndALegalName(t *testing.T) {
	registry := prometheus.NewRegistry()
	_ = newHouse(t, func(c *gate.Config) { c.Registerer = registry })
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
}

func TestWithBothStoresAwayTheGateIsUnavailable(t *testing.T) {
	own := testkit.StartRedis(t)
	h := newHouseOn(t, clientOf(t, own), "p:", nil)
	key := h.create(t, "")
	own.Kill()
	h.pool.Close()
	d := h.gate.Check(t.Context(), bearer(key.Key), client)
	if d.Outcome != gate.Unavailable || d.RetryAfter < time.Second {
		t.Errorf("got %+v", d)
	}
}

func TestWithoutPostgresKnownKeysPass(t *testing.T) {
	const trust = time.Hour
	var passed atomic.Int64
	h := newHouse(t, func(c *gate.Config) {
		start := time.Now()
		c.Trust, c.Now = trust, func() time.Time { return start.Add(time.Duration(passed.Load())) }
	})
	key, cold := h.create(t, ""), h.create(t, "")
	if !allowed(h.gate, key) {
		t.Fatal("refused")
	}
	h.pool.Close()
	for range 3 { // trust runs out meanwhile
		passed.Add(int64(trust * 2 / 3))
		if !allowed(h.gate, key) {
			t.Error("a known key is refused")
		}
	}
	if d := h.gate.Check(t.Context(), bearer(cold.Key), client); d.Outcome != gate.Unavailable {
		t.Errorf("a key that must be loaded: got %+v", d)
	}
}

// blockingLoader is the real reader, but stops between reading keys and returning them.
type blockingLoader struct {
	*keys.Reader

	read    chan struct{} // one was read
	proceed chan struct{}
}

func (l *blockingLoader) LoadMany(ctx context.Context, hashes []keys.Hash) ([]keys.Record, error) {
	records, err := l.Reader.LoadMany(ctx, hashes)
	l.read <- struct{}{}
	<-l.proceed
	return records, err
}

func TestALoaderThatReadBeforeTheRevocationCannotResurrectTheKey(t *testing.T) {
	for name, lose := range map[string]bool{"tombstone in place": false, "tombstone evicted": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, nil)
			loader := &blockingLoader{Reader: keys.NewReader(h.pool), read: make(chan struct{}), proceed: make(chan struct{})}
			slow := gate.New(patient(gate.Config{Prefix: h.prefix}), h.rdb, loader)
			key := h.create(t, "")
			outcome := make(chan gate.Outcome)
			go func() { outcome <- slow.Check(context.Background(), bearer(key.Key), client).Outcome }()
			<-loader.read // it holds the record as it was
			check.NoError(t, h.store.Revoke(t.Context(), key.Prefix))
			if lose {
				names, err := h.rdb.Keys(t.Context(), h.prefix+"gate:{*").Result()
				if err != nil || len(names) == 0 {
					t.Fatalf("got %v, %v", names, err)
				}
				h.rdb.Del(t.Context(), names...)
			}
			loader.proceed <- struct{}{}
			for done := false; !done; {
				select {
				case <-loader.read:
					loader.proceed <- struct{}{}
				case got := <-outcome:
					done = true
					if got == gate.Allowed {
						t.Error("the slow pod let it pass")
					}
				}
			}
			if allowed(h.gate, key) {
				t.Error("another pod lets it pass afterwards")
			}
		})
	}
}

func TestAReplicaThatLacksTheTombstoneResurrectsNothing(t *testing.T) {
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	var r route
	r.to(first)
	h := newHouseOn(t, r.client(t), "p:", nil)
	key, other := h.create(t, ""), h.create(t, "")
	if !allowed(h.gate, key) || !allowed(h.gate, other) {
		t.Fatal("refused")
	}
	replicate(t, first, second)
	promote(t, second) // it holds the active record, and hears of nothing after
	check.NoError(t, h.store.Revoke(t.Context(), key.Prefix))
	r.to(second)
	first.Kill()
	for range 5 {
		if allowed(h.gate, key) {
			t.Fatal("resurrected")
		}
	}
	testkit.Eventually(t, "the gate believes the promoted server", func() bool { return allowed(h.gate, other) })
	if allowed(h.gate, key) {
		t.Fatal("resurrected in the new term")
	}
}

func TestAPodLeftOnADeposedMasterRefusesWhatIsRevoked(t *testing.T) {
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	h := newHouseOn(t, clientOf(t, first), "p:", nil)
	left := h.newGate(nil)
	testkit.Run(t, left.Run)
	key := h.create(t, "")
	if !allowed(left, key) {
		t.Fatal("refused")
	}
	replicate(t, first, second)
	promote(t, second)
	moved := gate.New(patient(gate.Config{Prefix: "p:"}), clientOf(t, second), keys.NewReader(h.pool))
	check.NoError(t, keys.NewStore(h.pool, moved).Revoke(t.Context(), key.Prefix))
	if allowed(left, key) {
		t.Error("the pod on the old master lets it pass")
	}
}

func TestARestartWithOldDataResurrectsNothing(t *testing.T) {
	own := testkit.StartRedis(t)
	h := newHouseOn(t, clientOf(t, own), "p:", nil)
	key := h.create(t, "")
	if !allowed(h.gate, key) {
		t.Fatal("refused")
	}
	admin := own.Admin()
	check.NoError(t, admin.Save(t.Context()).Err())
	check.NoError(t, h.store.Revoke(t.Context(), key.Prefix))
	own.Kill()
	own.Start() // with what it saved before the revocation
	for range 5 {
		if allowed(h.gate, key) {
			t.Fatal("resurrected")
		}
	}
}

func TestAnUnannouncedChangeIsAnnouncedByAnyPod(t *testing.T) {
	h := newHouse(t, nil)
	key := h.create(t, "")
	if !allowed(h.gate, key) {
		t.Fatal("refused")
	}
	crash := errors.New("the process died here")
	store := keys.NewStore(h.pool, announcer(func(context.Context, ...keys.Record) error { return crash }))
	var unannounced *keys.NotAnnouncedError
	if err := store.Revoke(t.Context(), key.Prefix); !errors.As(err, &unannounced) || !errors.Is(err, crash) {
		t.Fatalf("got %v", err)
	}
	testkit.Run(t, h.newGate(nil).Run)
	testkit.Eventually(t, "the key is refused", func() bool { return !allowed(h.gate, key) })
	pending, err := keys.NewReader(h.pool).Pending(t.Context(), uuid.Nil, 10)
	check.NoError(t, err)
	testkit.Eventually(t, "the change is marked", func() bool {
		pending, err = keys.NewReader(h.pool).Pending(t.Context(), uuid.Nil, 10)
		return err == nil && len(pending) == 0
	})
}

// TestPodsThatKeepRecordsOtherwiseDoNotMissARevocation has one server taken for a single one by the pod that revokes, and
// for a Cluster of one by the pod that serves: they write to different hashes.
func TestPodsThatKeepRecordsOtherwiseDoNotMissARevocation(t *testing.T) {
	t.Parallel()
	own := testkit.StartRedis(t, "--cluster-enabled", "yes")
	admin := own.Admin()
	check.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testkit.Eventually(t, "the cluster is whole", func() bool {
		return strings.HasPrefix(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	options := &redis.UniversalOptions{Addrs: []string{own.Address()}, IsClusterMode: true}
	patientOptions(options)
	cluster := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = cluster.Close() })
	h := newHouseOn(t, cluster, "p:", nil)
	key := h.create(t, "")
	if !allowed(h.gate, key) {
		t.Fatal("refused")
	}
	single := gate.New(patient(gate.Config{Prefix: "p:"}), clientOf(t, own), keys.NewReader(h.pool))
	check.NoError(t, keys.NewStore(h.pool, single).Revoke(t.Context(), key.Prefix))
	if allowed(h.gate, key) {
		t.Error("the pod that takes it for a Cluster lets the key pass")
	}
}

// TestAFullRedisIsSwept: it refuses whatever takes memory, but not what gives some back.
func TestAFullRedisIsSwept(t *testing.T) {
	const past = 3000
	own := testkit.StartRedis(t)
	h := newHouseOn(t, clientOf(t, own), "p:", nil)
	admin := own.Admin()
	for i := range past { // entries of nothing verified, from 1970
		check.NoError(t, admin.HSet(t.Context(), "p:gate:{keys}", "past"+strconv.Itoa(i), strings.Repeat("\x00", 24)).Err())
	}
	check.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if err := admin.Set(t.Context(), "more", 1, 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	testkit.Run(t, h.gate.Run)
	testkit.Eventually(t, "the hash is empty", func() bool { return admin.HLen(t.Context(), "p:gate:{keys}").Val() == 0 })
}

type announcer func(context.Context, ...keys.Record) error

func (a announcer) Announce(ctx context.Context, records ...keys.Record) error {
	return a(ctx, records...)
}

func replicate(t *testing.T, master, replica *testkit.RedisServer) {
	t.Helper()
	admin := replica.Admin()
	check.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", master.Port()).Err())
	source := master.Admin()
	testkit.Eventually(t, "the replica has all", func() bool {
		return source.Do(t.Context(), "wait", 1, 10).Val() == int64(1) && admin.DBSize(t.Context()).Val() == source.DBSize(t.Context()).Val()
	})
}

func promote(t *testing.T, replica *testkit.RedisServer) {
	t.Helper()
	admin := replica.Admin()
	check.NoError(t, admin.ReplicaOf(t.Context(), "no", "one").Err())
}
