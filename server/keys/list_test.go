package keys_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/accounts"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func plant(t *testing.T, pool *pgxpool.Pool, account string, n int) uuid.UUID {
	t.Helper()
	return plantMore(t, pool, account, 0, n)
}

// plantMore adds n keys to an account that has planted keys already.
func plantMore(t *testing.T, pool *pgxpool.Pool, account string, planted, n int) uuid.UUID {
	t.Helper()
	id, err := accounts.Ensure(t.Context(), pool, account)
	check.NoError(t, err)
	testkit.Exec(t, pool, `
		INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT gen_random_uuid(), $1, $1, 'service_' || substr(encode(h, 'hex'), 1, 8), h
		FROM (SELECT sha256(convert_to($1::uuid || ' ' || n, 'UTF8')) AS h FROM generate_series($2::int + 1, $2 + $3::int) n) planted`,
		id, planted, n)
	return id
}

// all returns the keys of an account, or of all.
func all(t *testing.T, store *keys.Store, account string) []keys.Summary {
	t.Helper()
	var list []keys.Summary
	for key, err := range store.All(t.Context(), account) {
		check.NoError(t, err)
		list = append(list, key)
	}
	return list
}

func prefixes(page []keys.Summary) []string {
	list := make([]string, len(page))
	for i, key := range page {
		list[i] = key.Prefix
	}
	return list
}

func TestPagesMeetEveryKeyOnceAlsoWhereTimesAreTheSame(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	account := plant(t, pool, "acme", 23) // of one transaction, and so of one created_at
	plant(t, pool, "other", 5)
	newest := createFor(t, store, "acme", keys.NewKey{})
	check.NoError(t, store.RevokeAny(t.Context(), newest.Prefix))
	whole := all(t, store, "acme")
	for _, limit := range []int{1, 5, 8, 23, 24, 100} {
		var walked []string
		for before := ""; ; {
			page, err := store.Page(t.Context(), account, before, limit)
			if err != nil || len(page.Keys) == 0 || len(page.Keys) > limit {
				t.Fatalf("limit %d: %+v, %v", limit, page, err)
			}
			walked = append(walked, prefixes(page.Keys)...)
			if !page.More {
				break
			}
			before = walked[len(walked)-1]
		}
		check.Slices(t, walked, prefixes(whole), "limit %d: walked", limit)
	}
}

func TestAPageBeginsAtAKeyOfTheAccount(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	account := plant(t, pool, "acme", 1)
	others := createFor(t, store, "other", keys.NewKey{})
	for _, before := range []string{others.Prefix, "service_00000000", "service_", "\xff\x00", "x"} {
		var invalid *keys.InvalidError
		if page, err := store.Page(t.Context(), account, before, 10); !errors.As(err, &invalid) || invalid.Field != "before" {
			t.Errorf("before %q: %+v, %v", before, page, err)
		}
	}
	for _, limit := range []int{0, -1, keys.MaxPage + 1} {
		var invalid *keys.InvalidError
		if _, err := store.Page(t.Context(), account, "", limit); !errors.As(err, &invalid) || invalid.Field != "limit" {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if page, err := store.Page(t.Context(), uuid.New(), "", 10); err != nil || len(page.Keys) != 0 || page.More {
		t.Errorf("an account without keys: %+v, %v", page, err)
	}
}

// TestAListOfManyPagesHasEveryKeyOnce: a page of [keys.Store.All] has 1,000 keys.
func TestAListOfManyPagesHasEveryKeyOnce(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	for n, account := range []string{"acme", "other", "acme", "third", "acme"} { // 450 keys each, of one created_at
		plantMore(t, pool, account, n*450, 450)
	}
	for account, where := range map[string]string{"": "", "acme": " WHERE a.name = 'acme'", "nobody": " WHERE false"} {
		want := testkit.List[string](t, pool, "SELECT k.prefix FROM api_keys k JOIN accounts a ON a.id = k.account_id"+where+
			" ORDER BY k.created_at DESC, k.id DESC")
		check.Slices(t, prefixes(all(t, store, account)), want, "keys of %q", account)
	}
	for key, err := range store.All(t.Context(), "") { // one that stops
		if err != nil || key.Prefix == "" {
			t.Errorf("%+v, %v", key, err)
		}
		break
	}
}
