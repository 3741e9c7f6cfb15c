package gate_test

import (
	"context"
	"testing"

	"examprep.dev/server/gate"
)

// guest is a request that may not block until it has left.
type guest struct {
	context.Context
	woken        chan struct{}
	parked, left int
}

func newGuest(ctx context.Context) *guest {
	return &guest{Context: ctx, woken: make(chan struct{}, 1)}
}

func (g *guest) Value(key any) any {
	if key != (gate.ParkerKey{}) {
		return g.Context.Value(key)
	}
	if g.left > 0 {
		return nil
	}
	return g
}

func (g *guest) Park()  { g.parked++; <-g.woken }
func (g *guest) Wake()  { g.woken <- struct{}{} }
func (g *guest) Leave() { g.left++ }

// TestARequestThatMayNotBlockLeavesBeforePostgresIsAsked, and only then.
func TestARequestThatMayNotBlockLeavesBeforePostgresIsAsked(t *testing.T) {
	h := newHouse(t, nil)
	key := []byte("Bearer " + h.create(t, "").Key)
	for i, want := range []guest{
		{parked: 1, left: 1}, // its record is loaded: it parks once, and then waits as others do
		{parked: 1},
		{parked: 1},
	} {
		request := newGuest(t.Context())
		if d := h.gate.Check(request, key, client); d.Outcome != gate.Allowed {
			t.Fatalf("request %d: %+v", i, d)
		}
		if request.parked != want.parked || request.left != want.left {
			t.Errorf("request %d parked %d times and left %d times", i, request.parked, request.left)
		}
	}
	stranger := newGuest(t.Context())
	if d := h.gate.Check(stranger, nil, client); d.Outcome != gate.Unauthorized || stranger.parked != 1 || stranger.left != 0 {
		t.Errorf("without a key: %+v, parked %d times, left %d times", d, stranger.parked, stranger.left)
	}
	if err := h.rdb.Close(); err != nil {
		t.Fatal(err)
	}
	degraded := newGuest(t.Context())
	if d := h.gate.Check(degraded, key, client); d.Outcome != gate.Allowed || degraded.parked != 1 || degraded.left != 1 {
		t.Errorf("without Redis: %+v, parked %d times, left %d times", d, degraded.parked, degraded.left)
	}
}
