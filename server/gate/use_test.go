package gate_test

import (
	"context"
	"crypto/sha256"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// uses counts what a gate tells of the use of keys.
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

// take returns what was told since the last call.
func (u *uses) take() map[uuid.UUID][2]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := u.seen
	u.seen = nil
	return seen
}

// ask sends n requests of a key at once and returns how many had which outcome.
func ask(h *house, key string, n int) map[gate.Outcome]int {
	var mu sync.Mutex
	outcomes := map[gate.Outcome]int{}
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			d := h.gate.Check(context.Background(), bearer(key), client)
			mu.Lock()
			defer mu.Unlock()
			outcomes[d.Outcome]++
		})
	}
	group.Wait()
	return outcomes
}

func TestEachRequestOfAValidKeyIsToldOnce(t *testing.T) {
	var told uses
	own := testkit.StartRedis(t)
	h := newHouseOn(t, clientOf(t, own), "p:", func(c *gate.Config) { c.Used = told.count })
	testkit.Run(t, h.gate.Run)
	h.tier(t, keys.TierSpec{Name: "ten", Requests: 10, Period: time.Hour})
	key, other, doomed := h.create(t, "ten"), h.create(t, "ten"), h.create(t, "ten")
	id := func(of keys.Issued) uuid.UUID {
		record, err := h.store.Load(t.Context(), sha256.Sum256([]byte(of.Key)))
		if err != nil {
			t.Fatal(err)
		}
		return record.KeyID
	}
	check := func(when string, of keys.Issued, n int) {
		t.Helper()
		got := ask(h, of.Key, n)
		want := [2]int{got[gate.Allowed], got[gate.Limited]}
		if seen := told.take(); len(seen) != 1 || seen[id(of)] != want || want[0]+want[1] != n {
			t.Errorf("%s: told %v, want %v", when, seen, want)
		}
	}
	check("at once, more than there is", key, 64)
	check("denied from memory", key, 20)
	if err := h.store.Revoke(t.Context(), doomed.Prefix); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []string{doomed.Key, neverIssued, "guess"} {
		ask(h, refused, 3)
	}
	if seen := told.take(); len(seen) != 0 {
		t.Errorf("told of keys that are not valid: %v", seen)
	}
	own.Kill()
	check("without Redis", other, 15)
}
