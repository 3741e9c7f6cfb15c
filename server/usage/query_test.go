package usage_test

import (
	"errors"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

// TestRoomIsReservedBeforeUsageIsRead asks for the usage of an account and of one of its keys, and for more than one query returns.
func TestRoomIsReservedBeforeUsageIsRead(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	k, today := newKey(t, pool), time.Now().UTC().Truncate(24*time.Hour)
	record := func(n int) {
		testkit.Exec(t, pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
			SELECT CASE WHEN n = 1 THEN $1 ELSE gen_random_uuid() END, $2::date, $3, 1, 0 FROM generate_series(1, $4::int) n
			ON CONFLICT DO NOTHING`, k.id, today, k.account, n)
	}
	record(10)
	store := usage.NewStore(pool)
	full := errors.New("no room")
	ask := func(prefix string) (reserved int, err error) {
		reserved = -1
		_, err = store.Daily(t.Context(), usage.Query{
			Account: k.account, From: today, To: today, KeyPrefix: prefix, Reserve: func(rows int) error { reserved = rows; return full },
		})
		return reserved, err
	}
	for prefix, want := range map[string]int{"": 10, testkit.Get[string](t, pool, "SELECT prefix FROM api_keys WHERE id = $1", k.id): 1} {
		reserved, err := ask(prefix)
		check.Equal(t, reserved, want, "rows that room is reserved for")
		if !errors.Is(err, full) {
			t.Errorf("got %v, want the error of Reserve", err)
		}
	}
	record(usage.MaxRows)
	reserved, err := ask("")
	if _, tooMany := errors.AsType[*usage.TooManyRowsError](err); !tooMany || reserved != -1 {
		t.Errorf("got %v, and room is reserved for %d rows", err, reserved)
	}
}
