package httpapi

import (
	"testing"

	"github.com/google/uuid"

	"examprep.dev/server/testkit/check"
)

// fill makes claims of n bytes for a client until there is no room, and returns them.
func fill(m *bodyMemory, client uuid.UUID, n int) (claims []*claim) {
	for {
		c := &claim{memory: m, client: client}
		if !c.grow(n) {
			return claims
		}
		claims = append(claims, c)
	}
}

// TestOneClientHasAQuarterOfTheMemoryOfBodies: other clients find room while one holds as much as it may.
func TestOneClientHasAQuarterOfTheMemoryOfBodies(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	m := newBodyMemory(16 << 20)
	claims := fill(m, uuid.New(), size)
	if got := m.bytes(); got > 4<<20 || got < 15<<20/4-size {
		t.Errorf("one client holds %d bytes, want a quarter of %d", got, m.limit)
	}
	other := &claim{memory: m, client: uuid.New()}
	if !other.grow(2 << 20) {
		t.Error("another client has no room")
	}
	for _, c := range append(claims, other) {
		check.NoError(t, c.Close())
	}
	check.Equal(t, m.bytes(), 0, "bytes held in the end")
	check.Equal(t, len(m.clients), 0, "clients in the end")
}

// TestClientsThatTakeAllTheyCanLeaveMemoryOfBodies: four of them leave a third to others.
func TestClientsThatTakeAllTheyCanLeaveMemoryOfBodies(t *testing.T) {
	t.Parallel()
	const attackers = 4
	m := newBodyMemory(16 << 20)
	for range attackers {
		fill(m, uuid.New(), 32<<10)
	}
	if free := m.limit - m.bytes(); free < m.limit*3/10 {
		t.Errorf("%d of %d bytes are left", free, m.limit)
	}
	if c := (&claim{memory: m, client: uuid.New()}); !c.grow(1 << 20) {
		t.Error("the next client has no room")
	}
}

// TestSmallBodiesHaveAReserve: larger ones leave a sixteenth to them.
func TestSmallBodiesHaveAReserve(t *testing.T) {
	t.Parallel()
	m := newBodyMemory(16 << 20)
	for range 5000 {
		(&claim{memory: m, client: uuid.New()}).grow(smallClaim + 1)
	}
	if (&claim{memory: m, client: uuid.New()}).grow(smallClaim + 1) {
		t.Error("there is room for one more")
	}
	for n := range 16 {
		if !(&claim{memory: m, client: uuid.New()}).grow(smallClaim) {
			t.Errorf("after %d small bodies there is no room, %d of %d bytes are held", n, m.bytes(), m.limit)
		}
	}
}
