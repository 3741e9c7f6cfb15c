package sessions_test

import (
	"context"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// expire adds n rows to both tables that expired in the same order, and m older ones that all expired at once.
func (f *fixture) expire(t *testing.T, n, m int) {
	t.Helper()
	testkit.Exec(t, f.pool, `INSERT INTO sessions (hash, issuer, subject, email, created_at, expires_at, last_used_at)
		SELECT sha256(n::text::bytea), '', '', '', at, at - least(n, $1::int) * interval '1 hour', at FROM now() at, generate_series(1, $2::int) n`, n, n+m)
	testkit.Exec(t, f.pool, `INSERT INTO used_sign_ins (hash, expires_at)
		SELECT sha256(n::text::bytea), at - least(n, $1::int) * interval '1 hour' FROM now() at, generate_series(1, $2::int) n`, n, n+m)
}

// TestAnExpiredRowInTroubleDelaysNoSignIn signs in with expired rows in the table of which one cannot be deleted.
func TestAnExpiredRowInTroubleDelaysNoSignIn(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"sessions", "used_sign_ins"} {
		for _, trouble := range testkit.Troubles() {
			t.Run(table+" "+string(trouble), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.expire(t, 50, 0)
				bad := testkit.Get[string](t, f.pool, "SELECT hash::text FROM "+table+" ORDER BY expires_at LIMIT 1")
				end := trouble.Begin(t, f.pool, table, "hash", bad)
				cookie, back := f.returned(t)
				_, err := f.signIn.Complete(t.Context(), cookie, back)
				check.NoError(t, err)
				check.Equal(t, f.count(t, table), 51, "rows after the sign-in, which deletes none")
				left := 2
				if trouble == testkit.Slow {
					left = 1
				}
				if err := f.store.Forget(t.Context()); (err != nil) != (trouble == testkit.Poisoned) {
					t.Error(err)
				}
				check.Equal(t, f.count(t, table), left, "rows left with the new one")
				end()
				check.NoError(t, f.store.Forget(t.Context()))
				check.Equal(t, f.count(t, table), 1, "rows left after the trouble")
			})
		}
	}
}

// TestRowsThatCannotBeDeletedKeepNoOthers: the oldest thousand, which one statement takes, cannot be deleted.
func TestRowsThatCannotBeDeletedKeepNoOthers(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"sessions", "used_sign_ins"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.expire(t, 20, 1000)
			bad := testkit.Get[string](t, f.pool, "SELECT min(expires_at)::text FROM "+table)
			testkit.Poisoned.Begin(t, f.pool, table, "expires_at", bad)
			if err := f.store.Forget(t.Context()); err == nil {
				t.Error("no error")
			}
			check.Equal(t, f.count(t, table), 1001, "rows that are left")
		})
	}
}

// TestExpiredRowsAreDeletedWhileThePodRuns: no sign-in is needed.
func TestExpiredRowsAreDeletedWhileThePodRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expire(t, 10, 2000)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.store.Run(ctx) }()
	testkit.Eventually(t, "no expired row is left", func() bool { return f.count(t, "sessions")+f.count(t, "used_sign_ins") == 0 })
	stop()
	check.NoError(t, <-ended)
}
