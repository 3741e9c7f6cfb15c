package gate_test

import (
	"sync"
	"testing"

	"examprep.dev/server/gate"
)

// TestCallsKeepTheirConnections: none is opened for a call, and none is lent twice.
func TestCallsKeepTheirConnections(t *testing.T) {
	h := newHouse(t, nil)
	key := []byte("Bearer " + h.create(t, "").Key)
	check := func() {
		if d := h.gate.Check(t.Context(), key, client); d.Outcome != gate.Allowed {
			t.Errorf("got %+v", d)
		}
	}
	check()
	before := h.rdb.PoolStats()
	for range 50 {
		check()
	}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 50 {
				if d := h.gate.Check(t.Context(), key, client); d.Outcome == gate.Unavailable {
					t.Errorf("got %+v", d)
				}
			}
		})
	}
	group.Wait()
	after := h.rdb.PoolStats()
	if opened, lent := after.Misses-before.Misses, after.Hits-before.Hits; opened > 2 || lent > 2 || after.StaleConns > 0 {
		t.Errorf("%d connections were opened, %d lent by the pool, %d found stale", opened, lent, after.StaleConns)
	}
}
