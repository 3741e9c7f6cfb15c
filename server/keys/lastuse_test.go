package keys_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestEveryListHasTheLastUseOfAKey(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	key := create(t, store, keys.NewKey{})
	used := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	account := testkit.Get[uuid.UUID](t, pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited, last_used_at)
		SELECT id, ($2::timestamptz AT TIME ZONE 'UTC')::date, account_id, 1, 0, $2 FROM api_keys WHERE prefix = $1 RETURNING account_id`, key.Prefix, used)
	list := all(t, store, "")
	page, err := store.Page(t.Context(), account, "", 1)
	check.NoError(t, err)
	if len(list) != 1 || len(page.Keys) != 1 {
		t.Fatalf("%d keys in the list, %d on the page, want 1 each", len(list), len(page.Keys))
	}
	for _, summary := range slices.Concat(list, page.Keys) {
		if summary.LastUsedAt == nil || !summary.LastUsedAt.Equal(used) {
			t.Errorf("last used at %v, want %v", summary.LastUsedAt, used)
		}
	}
}
