package sessions_test

import (
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAnExpiredRowInTroubleDelaysNoSignIn signs in with expired rows in the table of which one cannot be deleted.
func TestAnExpiredRowInTroubleDelaysNoSignIn(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"sessions", "used_sign_ins"} {
		for _, trouble := range testkit.Troubles() {
			t.Run(table+" "+string(trouble), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				testkit.Exec(t, f.pool, `INSERT INTO sessions (hash, issuer, subject, email, created_at, expires_at, last_used_at)
					SELECT sha256(n::text::bytea), '', '', '', at, at - n * interval '1 hour', at FROM now() at, generate_series(1, 50) n`)
				testkit.Exec(t, f.pool, `INSERT INTO used_sign_ins (hash, expires_at)
					SELECT sha256(n::text::bytea), now() - n * interval '1 hour' FROM generate_series(1, 50) n`)
				bad := testkit.Get[string](t, f.pool, "SELECT hash::text FROM "+table+" ORDER BY expires_at LIMIT 1")
				end := trouble.Begin(t, f.pool, table, "hash", bad)
				cookie, back := f.returned(t)
				_, err := f.signIn.Complete(t.Context(), cookie, back)
				check.NoError(t, err)
				left := 2
				if trouble == testkit.Slow {
					left = 1
				}
				check.Equal(t, f.count(t, table), left, "rows left with the new one")
				end()
				check.NoError(t, f.store.Forget(t.Context()))
				check.Equal(t, f.count(t, table), 1, "rows left after the trouble")
			})
		}
	}
}
