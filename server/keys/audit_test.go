package keys_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// acting returns a context in which an administrator acts.
func acting(t *testing.T) context.Context {
	t.Helper()
	return audit.WithActor(t.Context(), audit.Actor{Kind: audit.Administrator, Name: "root@bastion"})
}

type recorded struct {
	account, action, target string
	detail                  map[string]any
}

func records(t *testing.T, pool *pgxpool.Pool) []recorded {
	t.Helper()
	var list []recorded
	var row recorded
	testkit.ForEach(t, pool, []any{&row.account, &row.action, &row.target, &row.detail}, func() {
		list = append(list, row)
		row.detail = nil
	}, `SELECT coalesce(a.name, ''), l.action, l.target, l.detail FROM audit_log l
		LEFT JOIN accounts a ON a.id = l.account_id ORDER BY l.id`)
	return list
}

func TestEachChangeOfAKeyIsRecorded(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	ctx := acting(t)
	check.NoError(t, store.ApplyTier(ctx, keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second}))
	expires := time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	first, err := store.CreateFor(ctx, "acme", keys.NewKey{Name: "ci", ExpiresAt: &expires})
	check.NoError(t, err)
	second, err := store.Rotate(ctx, first.AccountID, first.Prefix, time.Minute)
	check.NoError(t, err)
	for _, change := range []func() error{
		func() error { return store.SetTier(ctx, second.Prefix, "gold") },
		func() error { return store.SetTier(ctx, second.Prefix, "") },
		func() error { return store.RevokeAny(ctx, second.Prefix) },
		func() error { return store.RevokeAny(ctx, second.Prefix) },
	} {
		check.NoError(t, change())
	}
	third, err := store.CreateFor(ctx, "acme", keys.NewKey{InheritFrom: first.Prefix})
	check.NoError(t, err)
	want := []recorded{
		{"acme", "key.create", first.Prefix, map[string]any{"name": "ci", "tier": "default", "expires_at": "2100-01-02T03:04:05Z"}},
		{"acme", "key.rotate", first.Prefix, map[string]any{"successor": second.Prefix, "overlap_seconds": 60.0}},
		{"acme", "key.set_tier", second.Prefix, map[string]any{"tier": "gold", "was": nil}},
		{"acme", "key.set_tier", second.Prefix, map[string]any{"tier": nil, "was": "gold"}},
		{"acme", "key.revoke", second.Prefix, map[string]any{}}, // once, though it was revoked twice
		{"acme", "key.create", third.Prefix, map[string]any{"name": "", "tier": "default", "inherit_from": first.Prefix}},
	}
	if got := records(t, pool); !reflect.DeepEqual(got, want) {
		t.Errorf("recorded %v\nwant %v", got, want)
	}
}

func TestWhatIsRefusedIsNotRecorded(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	key := create(t, store, keys.NewKey{}) // by nobody: no record either
	ctx := acting(t)
	for name, refused := range map[string]error{
		"unknown tier": store.SetTier(ctx, key.Prefix, "none"),
		"unknown key":  store.RevokeAny(ctx, "service_00000000"),
		"rotate": func() error {
			_, err := store.Rotate(ctx, key.AccountID, "service_00000000", 0)
			return err
		}(),
	} {
		if refused == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if got := records(t, pool); len(got) != 0 {
		t.Errorf("recorded %v", got)
	}
}

func TestAChangeThatCannotBeRecordedDoesNotHappen(t *testing.T) {
	t.Parallel()
	store, confirmed, pool := newStore(t)
	key := create(t, store, keys.NewKey{})
	confirmed.take()
	nobody := audit.WithActor(t.Context(), audit.Actor{Kind: "stranger", Name: "x"}) // the table takes no such kind
	if err := store.RevokeAny(nobody, key.Prefix); err == nil {
		t.Error("revoked without a record")
	}
	if _, err := store.Rotate(nobody, key.AccountID, key.Prefix, 0); err == nil {
		t.Error("rotated without a record")
	}
	if load(t, pool, key.Key).Revoked || len(confirmed.take()) != 0 {
		t.Error("the key is revoked all the same")
	}
	if list := all(t, store, ""); len(list) != 1 {
		t.Errorf("%d keys", len(list))
	}
}
