package directory

import (
	"io"
	"log/slog"
	"testing"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// BenchmarkLoad loads a directory of 200,000 keys, and for comparison only copies the same columns.
func BenchmarkLoad(b *testing.B) {
	pool := testkit.Database(b)
	for _, statement := range []string{
		"INSERT INTO accounts (id, name) VALUES ('00000000-0000-4000-8000-000000000000', 'acme')",
		"ALTER TABLE api_keys DISABLE TRIGGER api_keys_changed",
		`INSERT INTO api_keys (id, account_id, prefix, family_id, hash)
			SELECT g.id, '00000000-0000-4000-8000-000000000000', 'service_' || lpad(to_hex(n), 8, '0'), g.id, sha256(convert_to(n::text, 'UTF8'))
			FROM set_config('examprep.bulk_changes', 'on', true), generate_series(1, 200000) n, LATERAL (SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) g`,
		"ANALYZE api_keys",
	} {
		_, err := pool.Exec(b.Context(), statement)
		check.NoError(b, err)
	}
	conn, err := postgres.Connect(b.Context(), pool.Config().ConnConfig)
	check.NoError(b, err)
	defer func() { _ = conn.Close(b.Context()) }()
	b.Run("directory", func(b *testing.B) {
		db := newConnection(conn, &Config{Budget: defaultBudget, Logger: slog.New(slog.DiscardHandler)})
		for b.Loop() {
			_, err := db.load(b.Context())
			check.NoError(b, err)
		}
	})
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			_, err := conn.PgConn().CopyTo(b.Context(), io.Discard, "COPY ("+activeKeys+") TO STDOUT (FORMAT binary)")
			check.NoError(b, err)
		}
	})
}
