package httpapi

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/sessions"
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

// TestWhatAHandlerReservesCountsBeforeItsResponse makes a response whose memory was reserved, one that there is no room for, and one
// that fails.
func TestWhatAHandlerReservesCountsBeforeItsResponse(t *testing.T) {
	t.Parallel()
	const limit, reserved, size = 16 << 20, 2 << 20, 1 << 20
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		reserve      int
		err          error
		during, sent int64
	}{
		"sent":    {reserved, nil, reserved, size},
		"refused": {limit, nil, 0, 0},
		"failed":  {reserved, failed, reserved, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newBodyMemory(limit)
			var during int64
			handle := m.keepResponse(&endpoint.Route{Reserves: true}, func(_ context.Context, r *exchange) error {
				if err := r.Reserve(c.reserve); err != nil {
					return err
				}
				during = m.bytes()
				r.Append(func(dst []byte) []byte { return append(dst, make([]byte, size)...) })
				return c.err
			})
			var http fasthttp.RequestCtx
			err := handle(t.Context(), &exchange{Request: endpoint.Request{HTTP: &http}})
			if (err == nil) != (c.sent > 0) {
				t.Errorf("the handler returned %v", err)
			}
			check.Equal(t, during, c.during, "bytes held while the response is made")
			check.Equal(t, m.bytes(), c.sent, "bytes held until the response is sent")
			http.ResetUserValues()
			check.Equal(t, m.bytes(), 0, "bytes held in the end")
		})
	}
}

// TestAPersonWithoutAnAccountHasAShareOfItsOwn: the memory of one person's bodies is not taken from another's.
func TestAPersonWithoutAnAccountHasAShareOfItsOwn(t *testing.T) {
	t.Parallel()
	of := func(subject string, account uuid.UUID) uuid.UUID {
		r := new(exchange)
		r.Session = sessions.Session{Person: accounts.Person{Issuer: "https://id.example", Subject: subject}, AccountID: account}
		return r.client()
	}
	ada, bob, account := of("ada", uuid.Nil), of("bob", uuid.Nil), uuid.New()
	if ada == uuid.Nil || ada == bob || ada != of("ada", uuid.Nil) {
		t.Errorf("ada is %s, bob %s", ada, bob)
	}
	check.Equal(t, of("ada", account), account, "client of a session with an account")
	check.Equal(t, new(exchange).client(), uuid.Nil, "client without a session")
}
