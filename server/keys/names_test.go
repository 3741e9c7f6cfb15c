package keys_test

import (
	"errors"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const composed, decomposed = "Z\u00fcrich", "Zu\u0308rich"

func TestNamesOfAccountsAreNormalised(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	first, second := create(t, store, keys.NewKey{Account: composed}), create(t, store, keys.NewKey{Account: decomposed})
	check.Equal(t, second.Account, first.Account, "account of the second key")
	id, err := store.EnsureAccount(t.Context(), composed)
	check.NoError(t, err)
	same, err := store.EnsureAccount(t.Context(), decomposed)
	check.NoError(t, err)
	check.Equal(t, same, id, "account")
	check.Equal(t, len(all(t, store, decomposed)), 2, "keys of the account")
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, Accounts: []string{decomposed}}))
	check.Equal(t, create(t, store, keys.NewKey{Account: composed}).Tier, "gold", "tier of the account's keys")
}

func TestABlankAtAnEndOfAnAccountsNameIsRefused(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	for _, name := range []string{"acme ", " acme", "acme\u00a0", "\u3000acme", "acme\u200b", "\ufeffacme", " "} {
		_, created := store.Create(t.Context(), keys.NewKey{Account: name})
		_, ensured := store.EnsureAccount(t.Context(), name)
		var listed error
		for _, err := range store.All(t.Context(), name) {
			listed = err
		}
		tier := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, Accounts: []string{"globex", name}}
		applied := store.ApplyTier(t.Context(), tier)
		for i, err := range []error{created, ensured, listed, applied} {
			field := "account"
			if i == 3 {
				field = "accounts[1]"
			}
			if invalid, ok := errors.AsType[*keys.InvalidError](err); !ok || invalid.Field != field {
				t.Errorf("%q: got %v, want an error of %s", name, err, field)
			}
		}
	}
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM accounts"), 0, "accounts")
	create(t, store, keys.NewKey{Account: "globex, inc.\u00a0& sons"})
}

// TestTheDatabaseRefusesNamesOfAccountsThatNoProcessWrites, such as those that a person types in psql.
func TestTheDatabaseRefusesNamesOfAccountsThatNoProcessWrites(t *testing.T) {
	t.Parallel()
	_, _, pool := newStore(t)
	names := []string{"", decomposed}
	for blank := rune(0); blank <= 0x3000; blank++ {
		if unicode.IsSpace(blank) {
			names = append(names, "acme"+string(blank), string(blank)+"acme")
		}
	}
	for _, name := range names {
		_, err := pool.Exec(t.Context(), "INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), $1)", name)
		if refusal, ok := errors.AsType[*pgconn.PgError](err); !ok || refusal.Code != "23514" {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
