package keys_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestNoKeyIsCreatedThatRestartedPodsHaveNoRoomFor: two pods report what their directories take and may take.
func TestNoKeyIsCreatedThatRestartedPodsHaveNoRoomFor(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	pods := []uuid.UUID{uuid.New(), uuid.New()}
	for _, id := range pods {
		testkit.Exec(t, pool, "INSERT INTO api_pods (id, applied, budget) VALUES ($1, 1, 2000)", id)
	}
	testkit.Exec(t, pool, "INSERT INTO api_pods (id, applied, used, budget, lost_at) VALUES ($1, 1, 99, 10, now())", uuid.New())
	testkit.Exec(t, pool, "INSERT INTO api_pods (id, applied, used, budget, renewed_at) VALUES ($1, 1, 99, 10, now() - interval '1 day')", uuid.New())
	testkit.Exec(t, pool, "UPDATE api_pods SET budget = 1000 WHERE id = $1", pods[1])
	var old []keys.CreatedKey
	for range 6 {
		old = append(old, create(t, store, keys.NewKey{}))
	}
	for i, c := range []struct {
		used                               int
		developer, administrator, rotation bool // possible
	}{{899, true, true, true}, {900, false, true, true}, {1000, false, false, false}} {
		testkit.Exec(t, pool, "UPDATE api_pods SET used = $1 WHERE id = $2", c.used, pods[0])
		_, developer := store.Create(t.Context(), old[0].AccountID, keys.NewKey{})
		_, administrator := store.CreateFor(t.Context(), "acme", keys.NewKey{})
		_, rotation := store.Rotate(t.Context(), old[0].AccountID, old[2*i].Prefix, time.Hour)
		_, atOnce := store.Rotate(t.Context(), old[0].AccountID, old[2*i+1].Prefix, 0)
		check.Succeeds(t, atOnce, "rotation without an overlap")
		for name, got := range map[string]struct {
			err      error
			possible bool
		}{"developer": {developer, c.developer}, "administrator": {administrator, c.administrator}, "rotation": {rotation, c.rotation}} {
			var full *keys.FullError
			if (got.err == nil) != got.possible || got.err != nil && !errors.As(got.err, &full) {
				t.Errorf("%d of 1000 bytes, %s: got %v", c.used, name, got.err)
			}
		}
	}
}
