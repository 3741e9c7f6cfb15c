package keys_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/accounts"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// pods records the kinds of the changes that the store confirms, in place of API pods.
type pods struct {
	mu    sync.Mutex
	kinds []keys.ChangeKind
	err   error
}

func (p *pods) Confirm(_ context.Context, kind keys.ChangeKind) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds = append(p.kinds, kind)
	return p.err
}

func (p *pods) take() []keys.ChangeKind {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.kinds
	p.kinds = nil
	return taken
}

func newStore(t *testing.T) (*keys.Store, *pods, *pgxpool.Pool) {
	t.Helper()
	pool, p := testkit.Database(t), &pods{}
	return keys.NewStore(pool, p), p, pool
}

type row struct {
	ID, Family, Account uuid.UUID
	Revoked             bool
	ExpiresAt           *time.Time
}

func create(t *testing.T, store *keys.Store, want keys.NewKey) keys.CreatedKey {
	t.Helper()
	return createFor(t, store, "acme", want)
}

func createFor(t *testing.T, store *keys.Store, account string, want keys.NewKey) keys.CreatedKey {
	t.Helper()
	issued, err := store.CreateFor(t.Context(), account, want)
	check.NoError(t, err)
	return issued
}

func listed(t *testing.T, store *keys.Store, key keys.CreatedKey) keys.Summary {
	t.Helper()
	list := all(t, store, key.Account)
	at := slices.IndexFunc(list, func(s keys.Summary) bool { return s.Prefix == key.Prefix })
	if at < 0 {
		t.Fatalf("the list does not have the key: %+v", list)
	}
	return list[at]
}

func load(t *testing.T, pool *pgxpool.Pool, key string) (r row) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "SELECT id, family_id, account_id, revoked_at IS NOT NULL, expires_at FROM api_keys WHERE prefix = $1",
		key[:keys.PrefixLength]).Scan(&r.ID, &r.Family, &r.Account, &r.Revoked, &r.ExpiresAt)
	check.NoError(t, err)
	return r
}

func TestACreatedKeyCanBeLoadedAndListedButNotRead(t *testing.T) {
	t.Parallel()
	store, confirmed, pool := newStore(t)
	expires := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	issued := create(t, store, keys.NewKey{Name: "ci", ExpiresAt: &expires})
	if !strings.HasPrefix(issued.Key, issued.Prefix) || issued.Account != "acme" || issued.Name != "ci" || issued.Tier != keys.DefaultTier {
		t.Errorf("got %+v", issued)
	}
	record := load(t, pool, issued.Key)
	if record.Revoked || !record.ExpiresAt.Equal(expires) || record.ID != record.Family {
		t.Errorf("got %+v", record)
	}
	list := all(t, store, "acme")
	if len(list) != 1 || list[0].Prefix != issued.Prefix || list[0].Tier != keys.DefaultTier || list[0].LastUsedAt != nil {
		t.Errorf("got %+v", list)
	}
	if other := all(t, store, "nobody"); len(other) != 0 {
		t.Errorf("got %+v", other)
	}
	check.Slices(t, confirmed.take(), []keys.ChangeKind{keys.Addition}, "confirmed")
}

func TestMistakesAreTypedAndChangeNothing(t *testing.T) {
	t.Parallel()
	store, confirmed, _ := newStore(t)
	past := time.Now().Add(-time.Second)
	key := create(t, store, keys.NewKey{})
	gone := create(t, store, keys.NewKey{})
	check.NoError(t, store.RevokeAny(t.Context(), gone.Prefix))
	confirmed.take()
	unknownKey, unknownTier, invalid, retired := new(*keys.UnknownKeyError), new(*keys.UnknownTierError), new(*keys.InvalidError), new(*keys.RetiredKeyError)
	ctx := t.Context()
	create := func(account string, want keys.NewKey) error {
		_, err := store.CreateFor(ctx, account, want)
		return err
	}
	rotate := func(prefix string, overlap time.Duration) error {
		_, err := store.Rotate(ctx, key.AccountID, prefix, overlap)
		return err
	}
	for name, c := range map[string]struct {
		got  error
		want any
	}{
		"no account":     {create("", keys.NewKey{}), new(*accounts.InvalidError)},
		"expired":        {create("a", keys.NewKey{ExpiresAt: &past}), invalid},
		"control":        {create("a", keys.NewKey{Name: "a\x00b"}), invalid},
		"long name":      {create("a", keys.NewKey{Name: strings.Repeat("x", 201)}), invalid},
		"tier of create": {create("a", keys.NewKey{Tier: "none"}), unknownTier},
		"tier of key":    {store.SetTier(ctx, key.Prefix, "none"), unknownTier},
		"set tier":       {store.SetTier(ctx, "service_00000000", "default"), unknownKey},
		"revoke":         {store.RevokeAny(ctx, "service_00000000"), unknownKey},
		"rotate unknown": {rotate("service_00000000", 0), unknownKey},
		"rotate revoked": {rotate(gone.Prefix, 0), retired},
		"long overlap":   {rotate(key.Prefix, 25*time.Hour), invalid},
		"no requests":    {store.ApplyTier(ctx, keys.TierSpec{Name: "x", Period: time.Second}), invalid},
		"no period":      {store.ApplyTier(ctx, keys.TierSpec{Name: "x", Requests: 1}), invalid},
		"inexact": {store.ApplyTier(ctx, keys.TierSpec{
			Name: "x", Requests: 7, Period: 720*time.Hour + time.Second, Burst: 10_000_000,
		}), invalid},
	} {
		if !errors.As(c.got, c.want) {
			t.Errorf("%s: got %v", name, c.got)
		}
	}
	if got := confirmed.take(); len(got) != 0 {
		t.Errorf("confirmed %v", got)
	}
	if list := all(t, store, ""); len(list) != 2 {
		t.Errorf("got %d keys", len(list))
	}
}

// TestChangeOfAnotherAccountsKeyIsRefused: the account is compared in the transaction that changes the key.
func TestChangeOfAnotherAccountsKeyIsRefused(t *testing.T) {
	t.Parallel()
	store, confirmed, pool := newStore(t)
	key, other := create(t, store, keys.NewKey{}), createFor(t, store, "other", keys.NewKey{})
	own, foreign := load(t, pool, key.Key).Account, load(t, pool, other.Key).Account
	confirmed.take()
	_, rotated := store.Rotate(t.Context(), foreign, key.Prefix, 0)
	for name, err := range map[string]error{"rotate": rotated, "revoke": store.Revoke(t.Context(), foreign, key.Prefix)} {
		if !errors.As(err, new(*keys.UnknownKeyError)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got := confirmed.take(); len(got) != 0 || load(t, pool, key.Key).Revoked {
		t.Errorf("another account's change has an effect; confirmed %v", got)
	}
	successor, err := store.Rotate(t.Context(), own, key.Prefix, time.Hour)
	check.NoError(t, err)
	check.NoError(t, store.Revoke(t.Context(), own, successor.Prefix))
}

func TestARevocationIsFinalAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	store, confirmed, pool := newStore(t)
	key := create(t, store, keys.NewKey{})
	confirmed.take()
	for range 2 {
		check.NoError(t, store.RevokeAny(t.Context(), key.Prefix))
		if got := confirmed.take(); !slices.Equal(got, []keys.ChangeKind{keys.Restriction}) {
			t.Fatalf("confirmed %v", got)
		}
	}
	if record := load(t, pool, key.Key); !record.Revoked {
		t.Errorf("got %+v", record)
	}
	if summary := listed(t, store, key); summary.RevokedAt == nil {
		t.Errorf("got %+v", summary)
	}
}

func TestAChangeThatIsNotConfirmedIsDurable(t *testing.T) {
	t.Parallel()
	store, confirmed, pool := newStore(t)
	key, other := create(t, store, keys.NewKey{}), create(t, store, keys.NewKey{})
	confirmed.err = &keys.UnconfirmedError{Silent: 1}
	want := new(*keys.UnconfirmedError)
	if err := store.RevokeAny(t.Context(), key.Prefix); !errors.As(err, want) {
		t.Fatalf("got %v", err)
	}
	if !load(t, pool, key.Key).Revoked {
		t.Error("not revoked")
	}
	if created, err := store.CreateFor(t.Context(), "acme", keys.NewKey{}); !errors.As(err, want) || load(t, pool, created.Key).Revoked {
		t.Errorf("create: %v", err)
	}
	successor, err := store.Rotate(t.Context(), other.AccountID, other.Prefix, 0)
	if !errors.As(err, want) || !load(t, pool, other.Key).Revoked || load(t, pool, successor.Key).Family != load(t, pool, other.Key).ID {
		t.Errorf("rotate: %v", err)
	}
}

func TestARotatedKeyInheritsEverythingButItsText(t *testing.T) {
	t.Parallel()
	store, confirmed, pool := newStore(t)
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: "gold", Requests: 10, Period: time.Second}))
	first := create(t, store, keys.NewKey{Name: "ci", Tier: "gold"})
	confirmed.take()
	second, err := store.Rotate(t.Context(), first.AccountID, first.Prefix, time.Hour)
	check.NoError(t, err)
	if second.Key == first.Key || second.Prefix == first.Prefix || second.Name != "ci" || second.Tier != "gold" || second.Account != "acme" {
		t.Errorf("got %+v", second)
	}
	a, b := load(t, pool, first.Key), load(t, pool, second.Key)
	if a.Family != b.Family || a.Account != b.Account || a.ID == b.ID {
		t.Errorf("got %+v and %+v", a, b)
	}
	if a.Revoked || a.ExpiresAt.Before(time.Now().Add(50*time.Minute)) {
		t.Errorf("the old key: got %+v", a)
	}
	check.Slices(t, confirmed.take(), []keys.ChangeKind{keys.Restriction}, "confirmed")
	_, err = store.Rotate(t.Context(), second.AccountID, second.Prefix, 0)
	check.NoError(t, err)
	if !load(t, pool, second.Key).Revoked {
		t.Error("no overlap: the old key is accepted")
	}
	check.Slices(t, confirmed.take(), []keys.ChangeKind{keys.Restriction}, "no overlap: confirmed")
	if later := load(t, pool, first.Key); !later.ExpiresAt.Equal(*a.ExpiresAt) {
		t.Errorf("the first key's end moved: %v to %v", a.ExpiresAt, later.ExpiresAt)
	}
}

func TestAKeyIsRotatedOnce(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	first := create(t, store, keys.NewKey{})
	second, err := store.Rotate(t.Context(), first.AccountID, first.Prefix, time.Minute)
	check.NoError(t, err)
	if _, err := store.Rotate(t.Context(), first.AccountID, first.Prefix, time.Minute); !errors.As(err, new(*keys.RetiredKeyError)) {
		t.Errorf("again: got %v, want a RetiredKeyError", err)
	}
	third, err := store.Rotate(t.Context(), second.AccountID, second.Prefix, time.Minute)
	check.NoError(t, err)
	if second.ExpiresAt != nil || third.ExpiresAt != nil {
		t.Errorf("successors end at %v and %v, want never", second.ExpiresAt, third.ExpiresAt)
	}
}

func TestAWholeKeyGivenForAPrefixIsNotPrinted(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	key := create(t, store, keys.NewKey{}).Key
	if err := store.RevokeAny(t.Context(), key); err == nil || strings.Contains(err.Error(), key[:keys.PrefixLength+1]) {
		t.Errorf("got %v", err)
	}
}

func TestANewKeyJoinsAFamilyOfItsAccountOnly(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	first, foreign := create(t, store, keys.NewKey{}), createFor(t, store, "umbrella", keys.NewKey{})
	check.NoError(t, store.RevokeAny(t.Context(), first.Prefix))
	heir := create(t, store, keys.NewKey{InheritFrom: first.Prefix})
	check.Equal(t, load(t, pool, heir.Key).Family, load(t, pool, first.Key).ID, "family")
	for name, prefix := range map[string]string{"unknown": "service_00000000", "of another account": foreign.Prefix, "no prefix": "\xff"} {
		_, err := store.CreateFor(t.Context(), "acme", keys.NewKey{InheritFrom: prefix})
		if invalid, ok := errors.AsType[*keys.InvalidError](err); !ok || invalid.Field != "inherit_from" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAKeyIsOfAnAccountThatExists: no id stands for every account, not even the zero one.
func TestAKeyIsOfAnAccountThatExists(t *testing.T) {
	t.Parallel()
	store, confirmed, _ := newStore(t)
	key := create(t, store, keys.NewKey{})
	confirmed.take()
	for _, account := range []uuid.UUID{uuid.Nil, uuid.Max, uuid.New()} {
		if _, err := store.Create(t.Context(), account, keys.NewKey{}); !errors.As(err, new(*keys.UnknownAccountError)) {
			t.Errorf("create for %s: %v, want an UnknownAccountError", account, err)
		}
		if _, err := store.Rotate(t.Context(), account, key.Prefix, 0); !errors.As(err, new(*keys.UnknownKeyError)) {
			t.Errorf("rotate for %s: %v, want an UnknownKeyError", account, err)
		}
		if err := store.Revoke(t.Context(), account, key.Prefix); !errors.As(err, new(*keys.UnknownKeyError)) {
			t.Errorf("revoke for %s: %v, want an UnknownKeyError", account, err)
		}
		if page, err := store.Page(t.Context(), account, "", 1); err != nil || len(page.Keys) > 0 {
			t.Errorf("keys of %s: %v, %v", account, page.Keys, err)
		}
	}
	if len(confirmed.take()) > 0 {
		t.Error("a refused change was confirmed")
	}
}
