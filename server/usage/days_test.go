package usage_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

// TestDaysAreSumsOfAllKeys has usage of two keys of the account inside and around the days, and of another account.
func TestDaysAreSumsOfAllKeys(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	k, other := newKey(t, pool), newKey(t, pool)
	last := time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
	day := func(ago int) time.Time { return last.Truncate(24*time.Hour).AddDate(0, 0, -ago) }
	for _, row := range []struct {
		ago, requests, limited int
	}{{-1, 1000, 1000}, {0, 3, 1}, {2, 5, 0}, {4, 7, 2}, {5, 1000, 1000}} {
		for _, of := range []struct{ key, account any }{{k.id, k.account}, {other.id, other.account}} {
			testkit.Exec(t, pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited) VALUES
				($1, $2, $3, $4, $5), (gen_random_uuid(), $2, $3, 10 * $4::bigint, 10 * $5::bigint)`, of.key, day(row.ago), of.account, row.requests, row.limited)
		}
	}
	got, err := usage.NewStore(pool).Days(t.Context(), k.account, last, 5)
	check.NoError(t, err)
	want := []usage.Day{{day(4), 77, 22}, {Day: day(3)}, {day(2), 55, 0}, {Day: day(1)}, {day(0), 33, 11}}
	check.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "days")
}

func TestDaysOfAnAccountWithoutUsageAreZero(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	got, err := usage.NewStore(pool).Days(t.Context(), newKey(t, pool).account, today, 3)
	check.NoError(t, err)
	check.Slices(t, got, []usage.Day{{Day: today.AddDate(0, 0, -2)}, {Day: today.AddDate(0, 0, -1)}, {Day: today}}, "days")
}

// TestDaysOfTooManyRowsAreRefusedUnread has a row for each of very many revoked keys, as creating, using and revoking them leaves it.
func TestDaysOfTooManyRowsAreRefusedUnread(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	k, other := newKey(t, pool), newKey(t, pool)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	record := func(account any, rows int) {
		testkit.Exec(t, pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
			SELECT gen_random_uuid(), $2::date - n % 30, $1, 1, 0 FROM generate_series(1, $3::int) n`, account, today, rows)
	}
	record(other.account, usage.MaxRows)
	record(k.account, 2*usage.MaxRows)
	testkit.Exec(t, pool, "ANALYZE key_usage")
	testkit.UnderEachPlan(t, pool, "", func(tx pgx.Tx, how string) {
		before := testkit.RowsRead(t, tx, "key_usage")
		_, err := usage.NewStore(tx).Days(t.Context(), k.account, today, 30)
		if _, tooMany := errors.AsType[*usage.TooManyRowsError](err); !tooMany {
			t.Errorf("%s: got %v, want a TooManyRowsError", how, err)
		}
		if read := testkit.RowsRead(t, tx, "key_usage") - before; read > usage.MaxRows+100 {
			t.Errorf("%s: %d rows are read, want %d at most", how, read, usage.MaxRows+100)
		}
	})
	days, err := usage.NewStore(pool).Days(t.Context(), other.account, today, 30)
	check.NoError(t, err)
	check.Equal(t, len(days), 30, "days of as many rows as are read")
}
