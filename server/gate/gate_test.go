package gate_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

var client = netip.MustParseAddr("192.0.2.7")

// patience is how long a gate under test waits for a store: a busy machine is no outage, and a store that is really gone
// refuses at once. Tests whose store falls silent use the gate's own time-outs.
const patience = 20 * time.Second

func patient(c gate.Config) gate.Config {
	c.Timeout, c.CallTimeout = patience, patience
	return c
}

func patientOptions(o *redis.UniversalOptions) {
	gate.ClientOptions(o)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience, patience
}

// house is one installation: a database, a Redis, a store that announces through a gate of its own, as the API does.
type house struct {
	pool   *pgxpool.Pool
	rdb    redis.UniversalClient
	prefix string
	store  *keys.Store
	gate   *gate.Gate
}

func newHouse(t testing.TB, adjust func(*gate.Config)) *house {
	t.Helper()
	_, prefix := testkit.Redis(t)
	rdb := testkit.OpenRedis(t, testkit.RedisURL(t), patientOptions)
	return newHouseOn(t, rdb, prefix, adjust)
}

func newHouseOn(t testing.TB, rdb redis.UniversalClient, prefix string, adjust func(*gate.Config)) *house {
	t.Helper()
	h := &house{pool: testkit.Database(t), rdb: rdb, prefix: prefix}
	h.gate = h.newGate(adjust)
	h.store = keys.NewStore(h.pool, h.gate)
	return h
}

// newGate returns another pod's gate on the same installation.
func (h *house) newGate(adjust func(*gate.Config)) *gate.Gate {
	cfg := patient(gate.Config{Prefix: h.prefix})
	if adjust != nil {
		adjust(&cfg)
	}
	return gate.New(cfg, h.rdb, keys.NewReader(h.pool))
}

func (h *house) create(t testing.TB, tier string) keys.Issued {
	t.Helper()
	issued, err := h.store.Create(t.Context(), keys.NewKey{Account: "acme", Tier: tier})
	check.NoError(t, err)
	return issued
}

// createMany adds n keys to the account that create made, with ids in order and the given version: a large installation
// in one statement.
func (h *house) createMany(t testing.TB, n, version int) {
	t.Helper()
	testkit.Exec(t, h.pool, `
		INSERT INTO api_keys (id, account_id, prefix, family_id, hash, version)
		SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, a.id, 'service_' || n, a.id,
			sha256(convert_to(n::text, 'UTF8')), $2
		FROM accounts a, generate_series(1, $1::int) n WHERE a.name = 'acme'`, n, version)
}

func (h *house) tier(t testing.TB, spec keys.TierSpec) {
	t.Helper()
	check.NoError(t, h.store.ApplyTier(t.Context(), spec))
}

func bearer(key string) []byte { return []byte("Bearer " + key) }

func TestAKeyPassesUntilItsBucketIsEmpty(t *testing.T) {
	h := newHouse(t, nil)
	h.tier(t, keys.TierSpec{Name: "slow", Requests: 3, Period: time.Hour})
	key := h.create(t, "slow")
	for i := range 3 {
		d := h.gate.Check(t.Context(), bearer(key.Key), client)
		if d.Outcome != gate.Allowed || !d.OfKey || d.Limit != 3 || d.Remaining != 2-i {
			t.Fatalf("request %d: got %+v", i, d)
		}
		if d.Policy != (gate.Policy{Requests: 3, Window: time.Hour}) {
			t.Errorf("got policy %+v", d.Policy)
		}
	}
	d := h.gate.Check(t.Context(), bearer(key.Key), client)
	if d.Outcome != gate.Limited || !d.OfKey || d.Remaining != 0 || d.RetryAfter < 19*time.Minute || d.RetryAfter > 20*time.Minute {
		t.Fatalf("got %+v", d)
	}
	if again := h.gate.Check(t.Context(), bearer(key.Key), client); again.Outcome != gate.Limited || !again.OfKey || again.RetryAfter > d.RetryAfter {
		t.Errorf("from memory: got %+v after %+v", again, d)
	}
}

func TestTheIdentityIsThatOfTheKey(t *testing.T) {
	h := newHouse(t, nil)
	first := h.create(t, "")
	second, err := h.store.Rotate(t.Context(), first.Prefix, time.Hour)
	check.NoError(t, err)
	a, b := h.gate.Check(t.Context(), bearer(first.Key), client), h.gate.Check(t.Context(), bearer(second.Key), client)
	if a.Outcome != gate.Allowed || b.Outcome != gate.Allowed {
		t.Fatalf("got %v and %v", a.Outcome, b.Outcome)
	}
	if a.Identity.KeyID == b.Identity.KeyID || a.Identity.FamilyID != b.Identity.FamilyID || a.Identity.AccountID != b.Identity.AccountID {
		t.Errorf("got %+v and %+v", a.Identity, b.Identity)
	}
	if a.Identity.KeyID != a.Identity.FamilyID {
		t.Errorf("the first key of a family names it: got %+v", a.Identity)
	}
}

func TestWithoutAValidKeyTheAddressIsLimited(t *testing.T) {
	for name, authorization := range map[string]string{
		"missing":   "",
		"malformed": "Bearer service_123",
		"basic":     "Basic dXNlcjpwYXNz",
		"unknown":   "Bearer " + neverIssued,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(c *gate.Config) { c.Anonymous = keys.Tier{Requests: 2, Period: time.Hour, Burst: 2} })
			for i := range 2 {
				d := h.gate.Check(t.Context(), []byte(authorization), client)
				if d.Outcome != gate.Unauthorized || d.OfKey || d.Limit != 2 || d.Remaining != 1-i {
					t.Fatalf("request %d: got %+v", i, d)
				}
			}
			if d := h.gate.Check(t.Context(), []byte(authorization), client); d.Outcome != gate.Limited || d.OfKey || d.RetryAfter < time.Second {
				t.Fatalf("got %+v", d)
			}
			if d := h.gate.Check(t.Context(), []byte(authorization), netip.MustParseAddr("192.0.2.8")); d.Outcome != gate.Unauthorized {
				t.Errorf("another address: got %+v", d)
			}
		})
	}
}

// neverIssued has the form of a key.
const neverIssued = "service_00000000000000000000000000000000000000005176df86"

func TestAnIPv6ClientIsItsNetwork(t *testing.T) {
	h := newHouse(t, func(c *gate.Config) { c.Anonymous = keys.Tier{Requests: 1, Period: time.Hour, Burst: 1} })
	for address, want := range map[string]gate.Outcome{"2001:db8::1": gate.Unauthorized} {
		if d := h.gate.Check(t.Context(), nil, netip.MustParseAddr(address)); d.Outcome != want {
			t.Errorf("%s: got %v", address, d.Outcome)
		}
	}
	if d := h.gate.Check(t.Context(), nil, netip.MustParseAddr("2001:db8::2")); d.Outcome != gate.Limited {
		t.Errorf("same /64: got %v", d.Outcome)
	}
	if d := h.gate.Check(t.Context(), nil, netip.MustParseAddr("2001:db8:0:1::1")); d.Outcome != gate.Unauthorized {
		t.Errorf("another /64: got %v", d.Outcome)
	}
}

func TestARevokedKeyIsRefusedByEveryPodAtOnce(t *testing.T) {
	h := newHouse(t, nil)
	pods := []*gate.Gate{h.gate, h.newGate(nil), h.newGate(nil)}
	key := h.create(t, "")
	for _, pod := range pods {
		if d := pod.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed {
			t.Fatalf("before: got %+v", d)
		}
	}
	check.NoError(t, h.store.Revoke(t.Context(), key.Prefix))
	for _, pod := range pods {
		if d := pod.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Unauthorized {
			t.Errorf("after: got %+v", d)
		}
	}
}

func TestAnExpiredKeyIsRefused(t *testing.T) {
	h := newHouse(t, nil)
	key := h.create(t, "")
	if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Outcome != gate.Allowed {
		t.Fatalf("got %+v", d)
	}
	if _, err := h.store.Rotate(t.Context(), key.Prefix, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the key expires", func() bool {
		return h.gate.Check(t.Context(), bearer(key.Key), client).Outcome == gate.Unauthorized
	})
}

func TestATierChangeTakesEffectWithTheAnswer(t *testing.T) {
	h := newHouse(t, nil)
	key := h.create(t, "")
	spent := h.gate.Check(t.Context(), bearer(key.Key), client)
	if spent.Limit != 120 || spent.Remaining != 119 {
		t.Fatalf("got %+v", spent)
	}
	h.tier(t, keys.TierSpec{Name: "gold", Requests: 1000, Period: time.Hour, Accounts: []string{"acme"}})
	if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Limit != 1000 || d.Remaining != 998 {
		t.Errorf("what was taken stays taken: got %+v", d)
	}
	h.tier(t, keys.TierSpec{Name: "iron", Requests: 10, Period: time.Hour, KeyPrefixes: []string{key.Prefix}})
	if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Limit != 10 || d.Remaining != 7 {
		t.Errorf("prefix over account: got %+v", d)
	}
	check.NoError(t, h.store.DeleteTier(t.Context(), "iron", ""))
	check.NoError(t, h.store.DeleteTier(t.Context(), "gold", ""))
	if d := h.gate.Check(t.Context(), bearer(key.Key), client); d.Limit != 120 {
		t.Errorf("back to default: got %+v", d)
	}
}
