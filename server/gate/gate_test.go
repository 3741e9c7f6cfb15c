package gate_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAKeyPassesUntilItsBucketIsEmpty(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	e.tier(t, keys.TierSpec{Name: "slow", Requests: 3, Period: time.Hour})
	key := e.create(t, "slow")
	for i := range 3 {
		d := e.gate.Check(t.Context(), bearer(key.Key), client)
		if d.Outcome != gate.Allowed || !d.OfKey || d.Limit != 3 || d.Remaining != 2-i {
			t.Fatalf("request %d: got %+v", i, d)
		}
		check.Equal(t, d.Policy, gate.Policy{Requests: 3, Window: time.Hour}, "policy")
	}
	d := e.gate.Check(t.Context(), bearer(key.Key), client)
	if d.Outcome != gate.Limited || !d.OfKey || d.Remaining != 0 || d.RetryAfter < 19*time.Minute || d.RetryAfter > 20*time.Minute {
		t.Fatalf("got %+v", d)
	}
	if again := e.gate.Check(t.Context(), bearer(key.Key), client); again.Outcome != gate.Limited || !again.OfKey || again.RetryAfter > d.RetryAfter {
		t.Errorf("from memory: got %+v after %+v", again, d)
	}
}

func TestTheIdentityIsThatOfTheKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	first := e.create(t, "")
	second, err := e.store.Rotate(patient(t), first.AccountID, first.Prefix, time.Hour)
	check.NoError(t, err)
	a, b := e.gate.Check(t.Context(), bearer(first.Key), client), e.gate.Check(t.Context(), bearer(second.Key), client)
	if a.Outcome != gate.Allowed || b.Outcome != gate.Allowed {
		t.Fatalf("got %v and %v", a.Outcome, b.Outcome)
	}
	if a.Identity.KeyID == b.Identity.KeyID || a.Identity.FamilyID != b.Identity.FamilyID || a.Identity.AccountID != b.Identity.AccountID {
		t.Errorf("got %+v and %+v", a.Identity, b.Identity)
	}
	check.Equal(t, a.Identity.KeyID, a.Identity.FamilyID, "the first key of a family names it: got %+v", a.Identity)
}

func TestWithoutAValidKeyTheAddressIsLimited(t *testing.T) {
	t.Parallel()
	for name, authorization := range map[string]string{
		"missing":   "",
		"malformed": "Bearer service_123",
		"basic":     "Basic dXNlcjpwYXNz",
		"unknown":   "Bearer " + neverIssued,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, gatetest.Config{Gate: gate.Config{Anonymous: keys.Tier{Requests: 2, Period: time.Hour, Burst: 2}}})
			for i := range 2 {
				d := e.gate.Check(t.Context(), []byte(authorization), client)
				if d.Outcome != gate.Unauthorized || d.OfKey || d.Limit != 2 || d.Remaining != 1-i {
					t.Fatalf("request %d: got %+v", i, d)
				}
			}
			if d := e.gate.Check(t.Context(), []byte(authorization), client); d.Outcome != gate.Limited || d.OfKey || d.RetryAfter < time.Second {
				t.Fatalf("got %+v", d)
			}
			expectOutcome(t, e.gate.Check(t.Context(), []byte(authorization), netip.MustParseAddr("192.0.2.8")), gate.Unauthorized, "another address")
		})
	}
}

func TestAnIPv6ClientIsItsNetwork(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{Gate: gate.Config{Anonymous: keys.Tier{Requests: 1, Period: time.Hour, Burst: 1}}})
	for address, want := range map[string]gate.Outcome{"2001:db8::1": gate.Unauthorized} {
		check.Equal(t, e.gate.Check(t.Context(), nil, netip.MustParseAddr(address)).Outcome, want, "%s", address)
	}
	check.Equal(t, e.gate.Check(t.Context(), nil, netip.MustParseAddr("2001:db8::2")).Outcome, gate.Limited, "same /64")
	check.Equal(t, e.gate.Check(t.Context(), nil, netip.MustParseAddr("2001:db8:0:1::1")).Outcome, gate.Unauthorized, "another /64")
}

func TestAnExpiredKeyIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	key := e.create(t, "")
	if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed {
		t.Fatalf("got %+v", d)
	}
	_, err := e.store.Rotate(patient(t), key.AccountID, key.Prefix, time.Millisecond)
	check.NoError(t, err)
	testkit.Eventually(t, "the key expires", func() bool {
		return e.gate.Check(t.Context(), bearer(key.Key), client).Outcome == gate.Unauthorized
	})
}

func TestAPersonOfASessionHasABucketOfItsOwn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{Gate: gate.Config{Anonymous: keys.Tier{Requests: 2, Period: time.Hour, Burst: 2}}})
	for range 3 {
		e.gate.Check(t.Context(), nil, client)
	}
	if d := e.gate.Check(t.Context(), nil, client); d.Outcome != gate.Limited {
		t.Fatalf("the address has tokens: %+v", d)
	}
	for _, person := range []string{"ada", "grace"} {
		for i := range 2 {
			d := e.gate.CheckSession(t.Context(), []byte(person))
			if d.Outcome != gate.Allowed || d.OfKey || d.Limit != 2 || d.Remaining != 1-i {
				t.Fatalf("%s, request %d: got %+v", person, i, d)
			}
		}
		if d := e.gate.CheckSession(t.Context(), []byte(person)); d.Outcome != gate.Limited || d.RetryAfter < time.Second {
			t.Errorf("%s, more than the allowance: got %+v", person, d)
		}
	}
}

func TestPeekShowsTheBucketOfAnAddressAndPasses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{Gate: gate.Config{Anonymous: keys.Tier{Requests: 2, Period: time.Hour, Burst: 2}}})
	for left := 2; left >= 0; left-- {
		for range 3 {
			d := e.gate.Peek(t.Context(), client)
			if d.Outcome != gate.Allowed || d.OfKey || d.Limit != 2 || d.Remaining != left || d.RetryAfter != 0 {
				t.Errorf("%d tokens: got %+v", left, d)
			}
			check.Equal(t, d.Policy, gate.Policy{Requests: 2, Window: time.Hour}, "policy")
			check.Equal(t, d.Reset > 0, left < 2, "a reset, with %d tokens", left)
		}
		e.gate.Check(t.Context(), nil, client)
	}
	expectOutcome(t, e.gate.Check(t.Context(), nil, client), gate.Limited, "an empty bucket")
}

// A pod without a lease cannot know whether a key is new or unknown.
func TestARequestThatCannotBeDecidedIsToldTheAllowanceOfItsAddress(t *testing.T) {
	t.Parallel()
	const tokens = 77
	e := newEnv(t, gatetest.Config{Gate: gate.Config{Anonymous: keys.Tier{Requests: tokens, Period: time.Hour, Burst: tokens}}})
	key := e.create(t, "")
	e.gate.Stop()
	left := tokens
	for name, header := range map[string][]byte{"live": bearer(key.Key), "unknown": bearer(neverIssued)} {
		left--
		d := e.gate.Check(t.Context(), header, client)
		d.Reset = 0
		want := gate.Decision{Limit: tokens, Remaining: left, RetryAfter: time.Second, Policy: gate.Policy{Requests: tokens, Window: time.Hour}}
		check.Equal(t, d, want, "%s", name)
	}
	expectOutcome(t, e.gate.Check(t.Context(), bearer("service_123"), client), gate.Unauthorized, "malformed")
}

// A request that ends before its turn got no token, and is no use of the key.
func TestAKnownKeyThatCannotBeDecidedIsToldItsAllowance(t *testing.T) {
	t.Parallel()
	var told uses
	e := newEnv(t, gatetest.Config{Gate: gate.Config{OnUse: told.count}})
	e.tier(t, keys.TierSpec{Name: "ten", Requests: 10, Period: time.Hour})
	key := e.create(t, "ten")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d := e.gate.Check(ended, bearer(key.Key), client)
	want := gate.Decision{OfKey: true, Limit: 10, RetryAfter: time.Second, Policy: gate.Policy{Requests: 10, Window: time.Hour}}
	check.Equal(t, d, want, "decision")
	if seen := told.take(); len(seen) != 0 {
		t.Errorf("told %v", seen)
	}
	if d := e.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed || d.Remaining != 9 {
		t.Errorf("afterwards: got %+v", d)
	}
}

type uses struct {
	mu   sync.Mutex
	seen map[uuid.UUID][2]int // admitted, limited
}

func (u *uses) count(key uuid.UUID, admitted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen == nil {
		u.seen = map[uuid.UUID][2]int{}
	}
	counts := u.seen[key]
	if admitted {
		counts[0]++
	} else {
		counts[1]++
	}
	u.seen[key] = counts
}

func (u *uses) take() map[uuid.UUID][2]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := u.seen
	u.seen = nil
	return seen
}

// ask sends n requests of a key at once and returns how many had which outcome.
func ask(e *env, key string, n int) map[gate.Outcome]int {
	var mu sync.Mutex
	outcomes := map[gate.Outcome]int{}
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			d := e.gate.Check(context.Background(), bearer(key), client)
			mu.Lock()
			defer mu.Unlock()
			outcomes[d.Outcome]++
		})
	}
	group.Wait()
	return outcomes
}

func TestEachRequestOfAValidKeyIsToldOnce(t *testing.T) {
	t.Parallel()
	var told uses
	own := testkit.StartRedis(t)
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:", Gate: gate.Config{OnUse: told.count}})
	e.tier(t, keys.TierSpec{Name: "ten", Requests: 10, Period: time.Hour})
	key, other, doomed := e.create(t, "ten"), e.create(t, "ten"), e.create(t, "ten")
	id := func(of keys.CreatedKey) uuid.UUID {
		return testkit.Get[uuid.UUID](t, e.pool, "SELECT id FROM api_keys WHERE prefix = $1", of.Prefix)
	}
	expectUses := func(when string, of keys.CreatedKey, n int) {
		t.Helper()
		got := ask(e, of.Key, n)
		want := [2]int{got[gate.Allowed], got[gate.Limited]}
		if seen := told.take(); len(seen) != 1 || seen[id(of)] != want || want[0]+want[1] != n {
			t.Errorf("%s: told %v, want %v", when, seen, want)
		}
	}
	expectUses("at once, more than there is", key, 64)
	expectUses("denied from memory", key, 20)
	e.revoke(t, doomed)
	for _, refused := range []string{doomed.Key, neverIssued, "guess"} {
		ask(e, refused, 3)
	}
	if seen := told.take(); len(seen) != 0 {
		t.Errorf("told of keys that are not valid: %v", seen)
	}
	own.Kill()
	expectUses("without Redis", other, 15)
}
