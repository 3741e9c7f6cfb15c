package keys_test

import (
	"errors"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/accounts"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const composed, decomposed = "Z\u00fcrich", "Zu\u0308rich"

func TestNamesOfAccountsAreNormalised(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	first, second := createFor(t, store, composed, keys.NewKey{}), createFor(t, store, decomposed, keys.NewKey{})
	check.Equal(t, second.Account, first.Account, "account of the second key")
	check.Equal(t, second.AccountID, first.AccountID, "account")
	check.Equal(t, len(all(t, store, decomposed)), 2, "keys of the account")
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, Accounts: []string{decomposed}}))
	check.Equal(t, createFor(t, store, composed, keys.NewKey{}).Tier, "gold", "tier of the account's keys")
}

func TestABlankAtAnEndOfAnAccountsNameIsRefused(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	for _, name := range []string{"acme ", " acme", "acme\u00a0", "\u3000acme", "acme\u200b", "\ufeffacme", " "} {
		_, created := store.CreateFor(t.Context(), name, keys.NewKey{})
		var listed error
		for _, err := range store.All(t.Context(), name) {
			listed = err
		}
		tier := keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second, Accounts: []string{"globex", name}}
		applied := store.ApplyTier(t.Context(), tier)
		for _, err := range []error{created, listed} {
			if invalid, ok := errors.AsType[*accounts.InvalidError](err); !ok || invalid.Field != "account" {
				t.Errorf("%q: got %v, want an error of account", name, err)
			}
		}
		if invalid, ok := errors.AsType[*keys.InvalidError](applied); !ok || invalid.Field != "accounts[1]" {
			t.Errorf("%q: got %v, want an error of accounts[1]", name, applied)
		}
	}
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM accounts"), 0, "accounts")
	createFor(t, store, "globex, inc.\u00a0& sons", keys.NewKey{})
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
