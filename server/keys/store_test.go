package keys_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// board records what was announced, in place of a gate.
type board struct {
	mu      sync.Mutex
	records []keys.Record
	err     error
}

func (b *board) Announce(_ context.Context, records ...keys.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, records...)
	return b.err
}

// take returns what was announced since the last call.
func (b *board) take() []keys.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.records
	b.records = nil
	return taken
}

func newStore(t *testing.T) (*keys.Store, *board, *pgxpool.Pool) {
	t.Helper()
	pool, b := testkit.Database(t), &board{}
	return keys.NewStore(pool, b), b, pool
}

func create(t *testing.T, store *keys.Store, want keys.NewKey) keys.Issued {
	t.Helper()
	if want.Account == "" {
		want.Account = "acme"
	}
	issued, err := store.Create(t.Context(), want)
	check.NoError(t, err)
	return issued
}

func load(t *testing.T, store *keys.Store, key string) keys.Record {
	t.Helper()
	record, err := store.Load(t.Context(), sha256.Sum256([]byte(key)))
	check.NoError(t, err)
	return record
}

func TestACreatedKeyCanBeLoadedAndListedButNotRead(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	expires := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	issued := create(t, store, keys.NewKey{Name: "ci", ExpiresAt: &expires})
	if !strings.HasPrefix(issued.Key, issued.Prefix) || issued.Account != "acme" || issued.Name != "ci" || issued.Tier != keys.DefaultTier {
		t.Errorf("got %+v", issued)
	}
	record := load(t, store, issued.Key)
	if record.Revoked || record.Version != 1 || record.Tier != keys.Default() || !record.ExpiresAt.Equal(expires) || record.KeyID != record.FamilyID {
		t.Errorf("got %+v", record)
	}
	list, err := store.List(t.Context(), "acme")
	if err != nil || len(list) != 1 || list[0].Prefix != issued.Prefix || list[0].Tier != keys.DefaultTier || list[0].LastUsedAt != nil {
		t.Errorf("got %+v, %v", list, err)
	}
	if other, err := store.List(t.Context(), "nobody"); err != nil || len(other) != 0 {
		t.Errorf("got %+v, %v", other, err)
	}
	if got := announced.take(); len(got) != 0 {
		t.Errorf("a new key needs no announcement: got %+v", got)
	}
}

func TestMistakesAreTypedAndChangeNothing(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	past := time.Now().Add(-time.Second)
	key := create(t, store, keys.NewKey{})
	gone := create(t, store, keys.NewKey{})
	check.NoError(t, store.Revoke(t.Context(), gone.Prefix))
	announced.take()
	unknownKey, unknownTier, invalid, retired := new(*keys.UnknownKeyError), new(*keys.UnknownTierError), new(*keys.InvalidError), new(*keys.RetiredKeyError)
	for name, c := range map[string]struct {
		call func(ctx context.Context) error
		want any
	}{
		"no account": {func(ctx context.Context) error { _, err := store.Create(ctx, keys.NewKey{}); return err }, invalid},
		"expired": {func(ctx context.Context) error {
			_, err := store.Create(ctx, keys.NewKey{Account: "a", ExpiresAt: &past})
			return err
		}, invalid},
		"control": {func(ctx context.Context) error {
			_, err := store.Create(ctx, keys.NewKey{Account: "a", Name: "a\x00b"})
			return err
		}, invalid},
		"long name": {func(ctx context.Context) error {
			_, err := store.Create(ctx, keys.NewKey{Account: "a", Name: strings.Repeat("x", 201)})
			return err
		}, invalid},
		"tier of create": {func(ctx context.Context) error {
			_, err := store.Create(ctx, keys.NewKey{Account: "a", Tier: "none"})
			return err
		}, unknownTier},
		"tier of key":    {func(ctx context.Context) error { return store.SetTier(ctx, key.Prefix, "none") }, unknownTier},
		"set tier":       {func(ctx context.Context) error { return store.SetTier(ctx, "service_00000000", "default") }, unknownKey},
		"revoke":         {func(ctx context.Context) error { return store.Revoke(ctx, "service_00000000") }, unknownKey},
		"get":            {func(ctx context.Context) error { _, err := store.Get(ctx, "service_00000000"); return err }, unknownKey},
		"load":           {func(ctx context.Context) error { _, err := store.Load(ctx, keys.Hash{}); return err }, unknownKey},
		"rotate unknown": {func(ctx context.Context) error { _, err := store.Rotate(ctx, "service_00000000", 0); return err }, unknownKey},
		"rotate revoked": {func(ctx context.Context) error { _, err := store.Rotate(ctx, gone.Prefix, 0); return err }, retired},
		"long overlap":   {func(ctx context.Context) error { _, err := store.Rotate(ctx, key.Prefix, 25*time.Hour); return err }, invalid},
		"no requests": {func(ctx context.Context) error {
			return store.ApplyTier(ctx, keys.TierSpec{Name: "x", Period: time.Second})
		}, invalid},
		"no period": {func(ctx context.Context) error { return store.ApplyTier(ctx, keys.TierSpec{Name: "x", Requests: 1}) }, invalid},
		"inexact": {func(ctx context.Context) error {
			return store.ApplyTier(ctx, keys.TierSpec{Name: "x", Requests: 7, Period: 720*time.Hour + time.Microsecond, Burst: 10_000_000})
		}, invalid},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.call(t.Context()); !errors.As(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if got := announced.take(); len(got) != 0 {
		t.Errorf("announced %+v", got)
	}
	if list, _ := store.List(t.Context(), ""); len(list) != 2 {
		t.Errorf("got %d keys", len(list))
	}
}

func TestARevocationIsFinalAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	for range 2 {
		check.NoError(t, store.Revoke(t.Context(), key.Prefix))
		got := announced.take()
		if len(got) != 1 || !got[0].Revoked || got[0].Version != 2 {
			t.Fatalf("announced %+v", got)
		}
	}
	if record := load(t, store, key.Key); !record.Revoked {
		t.Errorf("got %+v", record)
	}
	summary, err := store.Get(t.Context(), key.Prefix)
	if err != nil || summary.RevokedAt == nil {
		t.Errorf("got %+v, %v", summary, err)
	}
}

func TestARevocationThatCannotBeAnnouncedIsDurable(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	announced.err = errors.New("no Redis")
	var unannounced *keys.NotAnnouncedError
	if err := store.Revoke(t.Context(), key.Prefix); !errors.As(err, &unannounced) || unannounced.Keys != 1 {
		t.Fatalf("got %v", err)
	}
	if !load(t, store, key.Key).Revoked {
		t.Error("not revoked")
	}
	pending, err := store.Pending(t.Context(), uuid.Nil, 10)
	if err != nil || len(pending) != 1 || pending[0].Version != 2 {
		t.Fatalf("got %+v, %v", pending, err)
	}
	check.NoError(t, store.MarkAnnounced(t.Context(), pending))
	if pending, err = store.Pending(t.Context(), uuid.Nil, 10); err != nil || len(pending) != 0 {
		t.Errorf("got %+v, %v", pending, err)
	}
}

func TestARotatedKeyInheritsEverythingButItsText(t *testing.T) {
	t.Parallel()
	store, announced, _ := newStore(t)
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second}))
	first := create(t, store, keys.NewKey{Name: "ci", Tier: "gold"})
	second, err := store.Rotate(t.Context(), first.Prefix, time.Hour)
	check.NoError(t, err)
	if second.Key == first.Key || second.Prefix == first.Prefix || second.Name != "ci" || second.Tier != "gold" || second.Account != "acme" {
		t.Errorf("got %+v", second)
	}
	a, b := load(t, store, first.Key), load(t, store, second.Key)
	if a.FamilyID != b.FamilyID || a.AccountID != b.AccountID || a.KeyID == b.KeyID {
		t.Errorf("got %+v and %+v", a.Identity, b.Identity)
	}
	if a.Revoked || a.ExpiresAt.Before(time.Now().Add(50*time.Minute)) || a.Version != 2 {
		t.Errorf("the old key: got %+v", a)
	}
	if got := announced.take(); len(got) != 1 || got[0].KeyID != a.KeyID {
		t.Errorf("announced %+v", got)
	}
	if _, err := store.Rotate(t.Context(), second.Prefix, 0); err != nil {
		t.Fatal(err)
	}
	if !load(t, store, second.Key).Revoked {
		t.Error("no overlap: the old key is accepted")
	}
	if later := load(t, store, first.Key); !later.ExpiresAt.Equal(a.ExpiresAt) {
		t.Errorf("the first key's end moved: %v to %v", a.ExpiresAt, later.ExpiresAt)
	}
}

func TestAKeyIsRotatedOnce(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	first := create(t, store, keys.NewKey{})
	second, err := store.Rotate(t.Context(), first.Prefix, time.Minute)
	check.NoError(t, err)
	if _, err := store.Rotate(t.Context(), first.Prefix, time.Minute); !errors.As(err, new(*keys.RetiredKeyError)) {
		t.Errorf("again: got %v, want a RetiredKeyError", err)
	}
	third, err := store.Rotate(t.Context(), second.Prefix, time.Minute)
	check.NoError(t, err)
	if second.ExpiresAt != nil || third.ExpiresAt != nil {
		t.Errorf("successors end at %v and %v, want never", second.ExpiresAt, third.ExpiresAt)
	}
}

func TestAWholeKeyGivenForAPrefixIsNotPrinted(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	key := create(t, store, keys.NewKey{}).Key
	if err := store.Revoke(t.Context(), key); err == nil || strings.Contains(err.Error(), key[:keys.PrefixLength+1]) {
		t.Errorf("got %v", err)
	}
}
