package gate_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// seen is what requests of one key are told of its limit, by those that began after a change was answered.
type seen struct {
	limit  atomic.Int64 // that all must be told; 0: not settled
	wrong  atomic.Int64
	passed atomic.Int64
}

// watch asks without a pause, by clients on each pod, until stop is closed.
func (s *seen) watch(pods []*gate.Gate, clients int, header []byte, stop chan struct{}) (wait func()) {
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				want := s.limit.Load()
				d := pods[i%len(pods)].Check(context.Background(), header, client)
				if want != 0 && s.limit.Load() == want && int64(d.Limit) != want {
					s.wrong.Add(1)
				}
				s.passed.Add(1)
			}
		})
	}
	return group.Wait
}

// answers returns when so many more requests were answered.
func (s *seen) answers(t *testing.T, n int64) {
	t.Helper()
	before := s.passed.Load()
	testkit.Eventually(t, "requests are answered", func() bool { return s.passed.Load() > before+n })
}

// TestABusyKeyHasItsNewTierFromTheAnswerOn: a tier is set for one key, for its account, changed and deleted, while clients
// on four pods use the key. From each answer on, the next requests are told the new limit.
func TestABusyKeyHasItsNewTierFromTheAnswerOn(t *testing.T) {
	h := newHouse(t, nil)
	pods := []*gate.Gate{h.gate, h.newGate(nil), h.newGate(nil), h.newGate(nil)}
	for _, pod := range pods {
		testkit.Run(t, pod.Run)
	}
	const plenty = 1_000_000
	tier := func(name string, more int, spec keys.TierSpec) func() error {
		spec.Name, spec.Requests, spec.Period = name, plenty+more, time.Second
		return func() error { return h.store.ApplyTier(t.Context(), spec) }
	}
	check.NoError(t, tier(keys.DefaultTier, 0, keys.TierSpec{})())
	key := h.create(t, "")
	var s seen
	stop := make(chan struct{})
	wait := s.watch(pods, 16, bearer(key.Key), stop)
	changes := []struct {
		what  string
		do    func() error
		limit int64
	}{
		{"a tier for the account", tier("m", 1, keys.TierSpec{Accounts: []string{"acme"}}), plenty + 1},
		{"raised", tier("m", 2, keys.TierSpec{Accounts: []string{"acme"}}), plenty + 2},
		{"a second for the account, later by name", tier("n", 3, keys.TierSpec{Accounts: []string{"acme"}}), plenty + 2},
		{"a third, earlier by name", tier("a", 4, keys.TierSpec{Accounts: []string{"acme"}}), plenty + 4},
		{"one for the key", tier("z", 5, keys.TierSpec{KeyPrefixes: []string{key.Prefix}}), plenty + 5},
		{"its own", func() error { return h.store.SetTier(t.Context(), key.Prefix, "n") }, plenty + 3},
		{"its own deleted", func() error { return h.store.DeleteTier(t.Context(), "n", "") }, plenty + 5},
		{"that for the key deleted", func() error { return h.store.DeleteTier(t.Context(), "z", "") }, plenty + 4},
		{"the third deleted", func() error { return h.store.DeleteTier(t.Context(), "a", "") }, plenty + 2},
		{"the first deleted: default", func() error { return h.store.DeleteTier(t.Context(), "m", "") }, plenty},
	}
	for _, change := range changes {
		s.limit.Store(0)
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.what, err)
		}
		s.limit.Store(change.limit)
		s.answers(t, 200)
		if n := s.wrong.Swap(0); n > 0 {
			t.Errorf("%s: %d answers told of another limit than %d", change.what, n, change.limit)
		}
	}
	close(stop)
	wait()
}

// TestADeniedKeyHasItsRaisedTierWithinASecond: of a denial that a pod remembers it lets go in good time.
func TestADeniedKeyHasItsRaisedTierWithinASecond(t *testing.T) {
	var passed atomic.Int64
	start := time.Now()
	h := newHouse(t, func(c *gate.Config) {
		c.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	})
	h.tier(t, keys.TierSpec{Name: "one", Requests: 1, Period: time.Hour})
	h.tier(t, keys.TierSpec{Name: "many", Requests: 1000, Period: time.Second})
	key := h.create(t, "one")
	if !allowed(h.gate, key) || allowed(h.gate, key) {
		t.Fatal("one request is allowed")
	}
	check.NoError(t, h.store.SetTier(t.Context(), key.Prefix, "many"))
	passed.Add(int64(999 * time.Millisecond))
	for i := range 10 { // the first is not the only one that passes
		if d := h.gate.Check(t.Context(), bearer(key.Key), client); i > 0 && (d.Outcome != gate.Allowed || d.Limit != 1000) {
			t.Errorf("request %d: %+v", i, d)
		}
		passed.Add(int64(25 * time.Millisecond))
	}
}

// manyVariable says how many keys a tier applies to.
const manyVariable = "GATE_TEST_KEYS"

// TestATierOfManyKeysIsEverywhereWithTheAnswer: the default tier changes for more keys than one announcement carries.
func TestATierOfManyKeysIsEverywhereWithTheAnswer(t *testing.T) {
	h := newHouse(t, nil)
	pods := []*gate.Gate{h.newGate(nil), h.newGate(nil)}
	for _, pod := range pods {
		testkit.Run(t, pod.Run)
	}
	h.tier(t, keys.TierSpec{Name: keys.DefaultTier, Requests: 1_000_000, Period: time.Second})
	key := h.create(t, "")
	n := int(testkit.Size(t, manyVariable, 6_000))
	h.createMany(t, n, 1)
	var s seen
	stop := make(chan struct{})
	wait := s.watch(pods, 4, bearer(key.Key), stop)
	s.answers(t, 100)
	check.NoError(t, h.store.ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 999_999, Period: time.Second}))
	s.limit.Store(999_999)
	s.answers(t, 200)
	close(stop)
	wait()
	if n := s.wrong.Load(); n > 0 {
		t.Errorf("%d answers told of the old limit after the change was answered", n)
	}
	testkit.Eventually(t, "every key is announced", func() bool {
		pending, err := h.store.Pending(t.Context(), uuid.Nil, 1)
		return err == nil && len(pending) == 0
	})
}

// TestATierOfManyKeysWaitsOnceWithoutRedis: each announcement takes seconds then; the change of many keys takes no more.
func TestATierOfManyKeysWaitsOnceWithoutRedis(t *testing.T) {
	own := testkit.StartRedis(t)
	h := newHouseOn(t, clientOf(t, own), "p:", func(c *gate.Config) { c.Trust = 100 * time.Millisecond })
	h.create(t, "")
	h.createMany(t, 3000, 1)
	own.Kill()
	var announcements atomic.Int64
	counting := announcer(func(ctx context.Context, records ...keys.Record) error {
		announcements.Add(1)
		return h.gate.Announce(ctx, records...)
	})
	err := keys.NewStore(h.pool, counting).ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 7, Period: time.Second})
	if err != nil || announcements.Load() != 1 {
		t.Errorf("%v, after %d announcements", err, announcements.Load())
	}
}
