package gate_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

type seen struct {
	limit  atomic.Int64 // that each answer must have; 0: a change is under way
	wrong  atomic.Int64
	passed atomic.Int64
}

// watch asks without a pause, by clients on each pod, until stop is closed.
func (s *seen) watch(pods []*gatetest.Pod, clients int, header []byte, stop chan struct{}) (wait func()) {
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
// on four pods use the key. From each answer on, the next requests have the new limit.
func TestABusyKeyHasItsNewTierFromTheAnswerOn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t), e.newPod(t)}
	const plenty = 1_000_000
	tier := func(name string, more int, spec keys.TierSpec) func() error {
		spec.Name, spec.Requests, spec.Period = name, plenty+more, time.Second
		return func() error { return e.store.ApplyTier(patient(t), spec) }
	}
	check.NoError(t, tier(keys.DefaultTier, 0, keys.TierSpec{})())
	key := e.create(t, "")
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
		{"its own", func() error { return e.store.SetTier(patient(t), key.Prefix, "n") }, plenty + 3},
		{"its own deleted", func() error { return e.store.DeleteTier(patient(t), "n", "") }, plenty + 5},
		{"that for the key deleted", func() error { return e.store.DeleteTier(patient(t), "z", "") }, plenty + 4},
		{"the third deleted", func() error { return e.store.DeleteTier(patient(t), "a", "") }, plenty + 2},
		{"the first deleted: default", func() error { return e.store.DeleteTier(patient(t), "m", "") }, plenty},
	}
	for _, change := range changes {
		s.limit.Store(0)
		check.NoErrorf(t, change.do(), "%s", change.what)
		s.limit.Store(change.limit)
		s.answers(t, 200)
		if n := s.wrong.Swap(0); n > 0 {
			t.Errorf("%s: %d answers told of another limit than %d", change.what, n, change.limit)
		}
	}
	close(stop)
	wait()
}

func TestADeniedKeyHasItsRaisedTierWithTheAnswer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	e.tier(t, keys.TierSpec{Name: "one", Requests: 1, Period: time.Hour})
	e.tier(t, keys.TierSpec{Name: "many", Requests: 1000, Period: time.Second})
	key := e.create(t, "one")
	if !allowed(e.gate, key) || allowed(e.gate, key) {
		t.Fatal("one request is allowed")
	}
	check.NoError(t, e.store.SetTier(patient(t), key.Prefix, "many"))
	for i := range 10 {
		if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed || d.Limit != 1000 {
			t.Errorf("request %d: %+v", i, d)
		}
	}
}

func TestATierChangeTakesEffectWithTheAnswer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	e.tier(t, keys.TierSpec{Name: keys.DefaultTier, Requests: 120, Period: 700 * time.Hour}) // no token returns meanwhile
	key := e.create(t, "")
	spent := e.gate.Check(t.Context(), bearer(key.Key), client)
	if spent.Limit != 120 || spent.Remaining != 119 {
		t.Fatalf("got %+v", spent)
	}
	e.tier(t, keys.TierSpec{Name: "gold", Requests: 1000, Period: 700 * time.Hour, Accounts: []string{"acme"}})
	if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Limit != 1000 || d.Remaining != 998 {
		t.Errorf("what was taken stays taken: got %+v", d)
	}
	e.tier(t, keys.TierSpec{Name: "iron", Requests: 10, Period: 700 * time.Hour, KeyPrefixes: []string{key.Prefix}})
	if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Limit != 10 || d.Remaining != 7 {
		t.Errorf("prefix over account: got %+v", d)
	}
	check.NoError(t, e.store.DeleteTier(patient(t), "iron", ""))
	check.NoError(t, e.store.DeleteTier(patient(t), "gold", ""))
	if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Limit != 120 {
		t.Errorf("back to default: got %+v", d)
	}
}

const manyVariable = "GATE_TEST_KEYS"

// TestATierOfManyKeysIsEverywhereWithTheAnswer: the default tier changes for many keys, one of which is in use.
func TestATierOfManyKeysIsEverywhereWithTheAnswer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.newPod(t), e.newPod(t)}
	e.tier(t, keys.TierSpec{Name: keys.DefaultTier, Requests: 1_000_000, Period: time.Second})
	key := e.create(t, "")
	testkit.Exec(t, e.pool, `
		INSERT INTO api_keys (id, account_id, prefix, family_id, hash)
		SELECT g.id, a.id, 'service_' || lpad(to_hex(n), 8, '0'), g.id, sha256(convert_to(n::text, 'UTF8'))
		FROM set_config('examprep.bulk_changes', 'on', true), accounts a, generate_series(1, $1::int) n,
			LATERAL (SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) g
		WHERE a.name = 'acme'`, testkit.Size(t, manyVariable, 6_000))
	var s seen
	stop := make(chan struct{})
	wait := s.watch(pods, 4, bearer(key.Key), stop)
	s.answers(t, 100)
	e.tier(t, keys.TierSpec{Name: keys.DefaultTier, Requests: 999_999, Period: time.Second})
	s.limit.Store(999_999)
	s.answers(t, 200)
	close(stop)
	wait()
	if n := s.wrong.Load(); n > 0 {
		t.Errorf("%d answers had the old limit after the change was answered", n)
	}
}
