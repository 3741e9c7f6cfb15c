package gate_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

type uses struct {
	mu   sync.Mutex
	seen map[uuid.UUID][2]int // admitted, limited
}

func (u *uses) count(key uuid.UUID, admitted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen == nil {
		u.seen = map[uuid.UUID][2]int{}
	}
	counts := u.seen[key]
	if admitted {
		counts[0]++
	} else {
		counts[1]++
	}
	u.seen[key] = counts
}

func (u *uses) take() map[uuid.UUID][2]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := u.seen
	u.seen = nil
	return seen
}

// ask sends n requests of a key at once and returns how many had which outcome.
func ask(e *env, key string, n int) map[gate.Outcome]int {
	var mu sync.Mutex
	outcomes := map[gate.Outcome]int{}
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			d := e.gate.Check(context.Background(), bearer(key), client)
			mu.Lock()
			defer mu.Unlock()
			outcomes[d.Outcome]++
		})
	}
	group.Wait()
	return outcomes
}

func TestEachRequestOfAValidKeyIsToldOnce(t *testing.T) {
	t.Parallel()
	var told uses
	own := testkit.StartRedis(t)
	e := newEnvOn(t, clientOf(t, own), gatetest.Config{Prefix: "p:", Gate: gate.Config{OnUse: told.count}})
	e.tier(t, keys.TierSpec{Name: "ten", Requests: 10, Period: time.Hour})
	key, other, doomed := e.create(t, "ten"), e.create(t, "ten"), e.create(t, "ten")
	id := func(of keys.CreatedKey) (id uuid.UUID) {
		if err := e.pool.QueryRow(t.Context(), "SELECT id FROM api_keys WHERE prefix = $1", of.Prefix).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	check := func(when string, of keys.CreatedKey, n int) {
		t.Helper()
		got := ask(e, of.Key, n)
		want := [2]int{got[gate.Allowed], got[gate.Limited]}
		if seen := told.take(); len(seen) != 1 || seen[id(of)] != want || want[0]+want[1] != n {
			t.Errorf("%s: told %v, want %v", when, seen, want)
		}
	}
	check("at once, more than there is", key, 64)
	check("denied from memory", key, 20)
	if err := e.store.Revoke(t.Context(), uuid.Nil, doomed.Prefix); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []string{doomed.Key, neverIssued, "guess"} {
		ask(e, refused, 3)
	}
	if seen := told.take(); len(seen) != 0 {
		t.Errorf("told of keys that are not valid: %v", seen)
	}
	own.Kill()
	check("without Redis", other, 15)
}
