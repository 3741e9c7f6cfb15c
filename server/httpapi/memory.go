package httpapi

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi/endpoint"
)

const (
	// clientShare divides the memory of bodies: a client has at most a third of the free memory. That is a quarter of all memory
	// while no other client has any. Four clients that take as much as they can leave a third of it to others.
	clientShare = 3
	// reserveShare divides it too: the last sixteenth is for claims of at most smallClaim.
	reserveShare = 16
	// smallClaim is the memory, in bytes, of a body of 4 KiB and of its reading.
	smallClaim = (1 + parsing) * firstBuffer
)

// errNoBodyMemory reports that there is no memory for a body.
var errNoBodyMemory = errors.New("no memory for the body")

// bodyMemory bounds the memory of bodies, in bytes, together and for each client.
type bodyMemory struct {
	limit int64

	mu      sync.Mutex
	held    int64
	clients map[uuid.UUID]int64 // what each client holds
}

func newBodyMemory(limit int) *bodyMemory {
	return &bodyMemory{limit: int64(limit), clients: make(map[uuid.UUID]int64)}
}

// bytes returns the memory that is held.
func (m *bodyMemory) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// claim is the memory of one body. client is its key's family, or its session's account or person.
type claim struct {
	memory *bodyMemory
	client uuid.UUID
	held   int64
}

// grow reports whether there is room for n more bytes. They are held until they are released.
func (c *claim) grow(n int) bool {
	m, more := c.memory, int64(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := m.limit
	if c.held+more > smallClaim {
		limit -= limit / reserveShare
	}
	if free := limit - m.held - more; free < 0 || m.clients[c.client]+more > free/clientShare {
		return false
	}
	c.add(more)
	return true
}

// resize reports whether there is room for n bytes in all. A claim that has more releases the rest.
func (c *claim) resize(n int) bool {
	if more := n - int(c.held); more > 0 {
		return c.grow(more)
	}
	c.shrink(int(c.held) - n)
	return true
}

// shrink releases n bytes.
func (c *claim) shrink(n int) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	c.add(-int64(n))
}

// Close releases what is held.
func (c *claim) Close() error {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	c.add(-c.held)
	return nil
}

func (c *claim) add(n int64) {
	m := c.memory
	c.held += n
	m.held += n
	if m.clients[c.client] += n; m.clients[c.client] == 0 {
		delete(m.clients, c.client)
	}
}

// keptClaim names the claim of a response among fasthttp's user values.
type keptClaim struct{}

// keepResponse counts the body of a response that was made for its request alone until it is sent: its client can read slowly. Small
// bodies are part of the memory of connections. fasthttp closes the claim with the user values, when it has written the response or
// has given up. The memory that a handler reserves counts while it makes the response.
func (m *bodyMemory) keepResponse(route *endpoint.Route, next handler) handler {
	return func(ctx context.Context, r *exchange) error {
		var kept *claim
		if route.Reserves {
			r.Reserve = func(bytes int) error {
				if kept == nil {
					kept = &claim{memory: m, client: r.client()}
				}
				if !kept.grow(bytes) {
					return fromRead(errNoBodyMemory)
				}
				return nil
			}
		}
		err := next(ctx, r)
		size := len(r.HTTP.Response.Body())
		if kept == nil && err == nil && r.Own && size > firstBuffer {
			kept = &claim{memory: m, client: r.client()}
		}
		if kept == nil {
			return err
		}
		if err == nil && !kept.resize(size) {
			err = fromRead(errNoBodyMemory)
		}
		if err != nil {
			_ = kept.Close()
			return err
		}
		r.HTTP.SetUserValue(keptClaim{}, kept)
		return nil
	}
}

// client returns the family of the request's key, or the account of its session. Persons who work in no account share nothing.
func (r *exchange) client() uuid.UUID {
	if r.Identity.FamilyID != uuid.Nil {
		return r.Identity.FamilyID
	}
	return r.Session.Tenant()
}
