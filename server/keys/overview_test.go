package keys_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func overview(t *testing.T, store *keys.Store, account uuid.UUID) keys.Overview {
	t.Helper()
	got, err := store.Overview(t.Context(), account)
	check.NoError(t, err)
	return got
}

func TestOverviewHasTheTierOfANewKey(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	key := create(t, store, keys.NewKey{})
	tier := func(want string) {
		t.Helper()
		name := ""
		if got := overview(t, store, key.AccountID).Tier; got != nil {
			name = got.Name
		}
		check.Equal(t, name, want, "tier of the overview")
		check.Equal(t, create(t, store, keys.NewKey{}).Tier, want, "tier of a new key")
	}
	spec := func(name string, requests int, prefixes, accounts []string) {
		check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{
			Name: name, Requests: requests, Period: time.Minute, KeyPrefixes: prefixes, Accounts: accounts,
		}))
	}
	tier(keys.DefaultTier)
	spec("silver", 5, []string{key.Prefix}, nil) // of one key only
	tier(keys.DefaultTier)
	spec("gold", 600, nil, []string{"acme"})
	tier("gold")
	check.Equal(t, *overview(t, store, key.AccountID).Tier, keys.Tier{Name: "gold", Requests: 600, Period: time.Minute, Burst: 600}, "tier")
	testkit.Exec(t, pool, "UPDATE rate_tiers SET requests = 2000000000 WHERE name = 'gold'")
	tier("")
}

func TestOverviewHasTheKeysThatExpireSoon(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	account := create(t, store, keys.NewKey{Name: "never"}).AccountID
	createFor(t, store, "other", keys.NewKey{Name: "another account's", ExpiresAt: new(time.Now().Add(time.Hour))})
	for name, in := range map[string]time.Duration{
		"third": keys.ExpiresSoon - time.Hour, "first": time.Hour, "second": 24 * time.Hour, "later": keys.ExpiresSoon + time.Hour,
		"revoked": 2 * time.Hour, "expired": 3 * time.Hour, "replaced": 4 * time.Hour,
	} {
		create(t, store, keys.NewKey{Name: name, ExpiresAt: new(time.Now().Add(in))})
	}
	testkit.Exec(t, pool, "UPDATE api_keys SET revoked_at = now() WHERE name = 'revoked'")
	testkit.Exec(t, pool, "UPDATE api_keys SET expires_at = now() - interval '1 hour' WHERE name = 'expired'")
	testkit.Exec(t, pool, "UPDATE api_keys SET rotated_at = now() WHERE name = 'replaced'")
	used := time.Now().UTC().Truncate(time.Second)
	testkit.Exec(t, pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited, last_used_at)
		SELECT id, $1::timestamptz::date, account_id, 1, 0, $1::timestamptz FROM api_keys WHERE name = 'second'`, used)
	got := overview(t, store, account)
	check.Equal(t, got.Active, 6, "active keys")
	var expiring []string
	for _, key := range got.Expiring {
		text := key.Name
		if key.LastUsedAt != nil {
			text += " used " + key.LastUsedAt.UTC().Format(time.RFC3339)
		}
		expiring = append(expiring, text)
	}
	check.Slices(t, expiring, []string{"first", "second used " + used.Format(time.RFC3339), "third"}, "expiring keys")
}

func TestOverviewListsFiftyExpiringKeys(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	account := plant(t, pool, "acme", keys.MaxExpiring+5)
	testkit.Exec(t, pool, `UPDATE api_keys k SET expires_at = now() + n.n * interval '1 minute', name = n.n::text
		FROM (SELECT id, row_number() OVER (ORDER BY prefix) AS n FROM api_keys) n WHERE n.id = k.id`)
	got := overview(t, store, account)
	check.Equal(t, got.Active, keys.MaxExpiring+5, "active keys")
	for i, key := range got.Expiring {
		check.Equal(t, key.Name, fmt.Sprint(i+1), "expiring key %d", i)
	}
	check.Equal(t, len(got.Expiring), keys.MaxExpiring, "expiring keys")
}
