package keys_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAStatementThatChangesTooManyKeysIsRefused acts as another writer: psql, or an import.
func TestAStatementThatChangesTooManyKeysIsRefused(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	createFor(t, store, "first", keys.NewKey{})
	plant(t, pool, "acme", 1000)
	many := "INSERT INTO accounts (id, name) SELECT gen_random_uuid(), n::text FROM generate_series(1, $1::int) n"
	const insert = `INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT gen_random_uuid(), a.id, a.id AS family, 'service_' || lpad(to_hex(n), 8, '0'), sha256(convert_to(n::text, 'UTF8'))
		FROM accounts a, generate_series(1, $1::int) n WHERE a.name = 'first'`
	for _, c := range []struct {
		statement string
		rows      []any
	}{
		{"UPDATE api_keys SET expires_at = now() + interval '1 day'", nil},
		{"BEGIN; SET LOCAL session_replication_role = replica; UPDATE api_keys SET tier = 'x'; COMMIT", nil},
		{"DELETE FROM api_keys", nil},
		{insert, []any{1001}},
		{many, []any{1001}},
	} {
		_, err := pool.Exec(t.Context(), c.statement, c.rows...)
		refused, _ := errors.AsType[*pgconn.PgError](err)
		if refused == nil || !strings.Contains(refused.Message, "SET LOCAL examprep.bulk_changes = on") {
			t.Errorf("%s: got %v", c.statement, err)
		}
	}
	before := testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes")
	testkit.Exec(t, pool, many, 1000)
	testkit.Exec(t, pool, "UPDATE api_keys SET expires_at = now() + interval '1 day' WHERE account_id = (SELECT id FROM accounts WHERE name = 'acme')")
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM key_changes")-before, 2000, "changes of 1000 rows each")
	tx := testkit.Begin(t, pool, "SET LOCAL examprep.bulk_changes = on")
	testkit.Exec(t, tx, "UPDATE api_keys SET expires_at = NULL")
	testkit.Exec(t, tx, "UPDATE accounts SET name = name || ' & co'")
	testkit.Exec(t, tx, "DELETE FROM api_keys")
	check.NoError(t, tx.Commit(t.Context()))
}
