package keys_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// hold keeps new keys from being written until n who want to are waiting, each for that or for another of them; release
// then lets them go. So all that do not wait for each other have counted before any is written.
func hold(t *testing.T, pool *pgxpool.Pool, n int) (release func()) {
	t.Helper()
	watcher, err := pool.Acquire(t.Context()) // before they take all
	check.NoError(t, err)
	t.Cleanup(watcher.Release)
	tx := testkit.Begin(t, pool, "LOCK TABLE api_keys IN SHARE MODE")
	return func() {
		t.Helper()
		testkit.Eventually(t, "so many wait", func() bool {
			var waiting int
			check.NoError(t, watcher.QueryRow(t.Context(),
				"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting))
			return waiting >= n
		})
		testkit.Release(t, tx)
	}
}

// keyLimit is the limit of an account that an administrator or a resource made.
const keyLimit = 1000

func TestTheLimitHoldsHoweverManyCreateAtOnce(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	acme := plant(t, pool, "acme", keyLimit-1)
	other := plant(t, pool, "other", 1)
	var group sync.WaitGroup
	var issued, refused atomic.Int32
	release := hold(t, pool, 16) // the pool has room for them
	for range 64 {
		group.Go(func() {
			_, err := store.Create(context.WithoutCancel(t.Context()), acme, keys.NewKey{})
			var full *keys.LimitError
			switch {
			case err == nil:
				issued.Add(1)
			case errors.As(err, &full) && full.Most == keyLimit:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	release()
	group.Wait()
	if issued.Load() != 1 || refused.Load() != 63 {
		t.Errorf("%d were issued and %d refused, want 1 and 63", issued.Load(), refused.Load())
	}
	if _, err := store.Create(t.Context(), other, keys.NewKey{}); err != nil {
		t.Errorf("another account: %v", err)
	}
	if _, err := store.CreateFor(t.Context(), "acme", keys.NewKey{}); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

func TestOnlyActiveKeysCount(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	acme := plant(t, pool, "acme", 4)
	testkit.Exec(t, pool, "UPDATE accounts SET key_limit = 3")
	for _, end := range []string{"revoked_at = now()", "expires_at = now() - interval '1 second'", "expires_at = now() + interval '1 hour'"} {
		_, err := pool.Exec(t.Context(),
			"UPDATE api_keys SET "+end+" WHERE id = (SELECT id FROM api_keys WHERE revoked_at IS NULL AND expires_at IS NULL LIMIT 1)")
		check.NoError(t, err)
	}
	for i, allowed := range []bool{true, false} { // two are live, of three
		_, err := store.Create(t.Context(), acme, keys.NewKey{})
		if full := new(*keys.LimitError); (err == nil) != allowed || err != nil && !errors.As(err, full) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestAnAccountAtItsLimitCanRotate(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	plant(t, pool, "acme", keyLimit-1)
	key := createFor(t, store, "acme", keys.NewKey{})
	beside, err := store.Rotate(t.Context(), key.AccountID, key.Prefix, time.Hour)
	check.NoErrorf(t, err, "with an overlap")
	instead, err := store.Rotate(t.Context(), beside.AccountID, beside.Prefix, 0)
	check.NoErrorf(t, err, "without an overlap")
	if _, err := store.Create(t.Context(), key.AccountID, keys.NewKey{}); !errors.As(err, new(*keys.LimitError)) {
		t.Errorf("one more: %v, want a LimitError", err)
	}
	testkit.Exec(t, pool, `UPDATE api_keys SET rotated_at = now(), expires_at = now() + interval '1 hour'
		FROM set_config('examprep.bulk_changes', 'on', true) WHERE prefix <> $1`, instead.Prefix)
	var full *keys.LimitError
	if _, err := store.Rotate(t.Context(), instead.AccountID, instead.Prefix, time.Hour); !errors.As(err, &full) || !full.Rotated {
		t.Errorf("when so many rotated keys live on: %v, want a LimitError", err)
	}
	if _, err := store.Rotate(t.Context(), instead.AccountID, instead.Prefix, 0); err != nil {
		t.Errorf("without an overlap even then: %v", err)
	}
}

func TestTheLimitOfRotatedKeysHoldsHoweverManyRotateAtOnce(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	plant(t, pool, "acme", keyLimit-1)
	testkit.Exec(t, pool, "UPDATE api_keys SET rotated_at = now(), expires_at = now() + interval '1 hour'")
	var group sync.WaitGroup
	var rotated atomic.Int32
	rotating := make([]keys.CreatedKey, 16)
	for i := range rotating {
		rotating[i] = createFor(t, store, "acme", keys.NewKey{})
	}
	release := hold(t, pool, len(rotating))
	for _, key := range rotating {
		group.Go(func() {
			if _, err := store.Rotate(context.WithoutCancel(t.Context()), key.AccountID, key.Prefix, time.Hour); err == nil {
				rotated.Add(1)
			} else if !errors.As(err, new(*keys.LimitError)) {
				t.Error(err)
			}
		})
	}
	release()
	group.Wait()
	check.Equal(t, rotated.Load(), 1, "keys rotated")
}

func TestATimeThatCannotBeWrittenIsRefusedAndOthersAreKeptAsTold(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	issued := create(t, store, keys.NewKey{ExpiresAt: &last})
	kept := listed(t, store, issued)
	if kept.ExpiresAt.UTC().Year() != 9999 || !kept.ExpiresAt.Equal(*issued.ExpiresAt) {
		t.Errorf("told %v, kept %v", issued.ExpiresAt, kept.ExpiresAt)
	}
	beyond := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))
	var invalid *keys.InvalidError
	if _, err := store.CreateFor(t.Context(), "acme", keys.NewKey{ExpiresAt: &beyond}); !errors.As(err, &invalid) || invalid.Field != "expires_at" {
		t.Errorf("in the year 10000: %v", err)
	}
}

func TestATakenPrefixIsDrawnAgain(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	taken := create(t, store, keys.NewKey{})
	testkit.Exec(t, pool, "CREATE SEQUENCE tries")
	testkit.Exec(t, pool, "CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') <> 3 THEN NEW.prefix := '"+
		taken.Prefix+"'; END IF; RETURN NEW; END $$")
	testkit.Exec(t, pool, "CREATE TRIGGER collide BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION collide()")
	third := create(t, store, keys.NewKey{})
	if load(t, pool, third.Key).Revoked || third.Prefix == taken.Prefix {
		t.Errorf("got the prefix %s", third.Prefix)
	}
	if _, err := store.CreateFor(t.Context(), "acme", keys.NewKey{}); err == nil {
		t.Error("a key without a prefix of its own")
	}
}
