package httpapi

import (
	"errors"
	"sync"

	"github.com/google/uuid"
)

const (
	// clientShare divides the memory of bodies: a client has at most a third of what is free, so a quarter of it all if no other
	// client has any. Four clients that take as much as they can leave a third of it to others.
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

// claim is the memory of one body. client is its key's family or its session's account.
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

// shrink releases n bytes.
func (c *claim) shrink(n int) {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	c.add(-int64(n))
}

// Close releases what is held. fasthttp calls it for a response's claim when the response was sent (see keepResponse).
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

// client returns the family of the request's key, or the account of its session.
func (r *exchange) client() uuid.UUID {
	if r.Identity.FamilyID != uuid.Nil {
		return r.Identity.FamilyID
	}
	return r.Session.AccountID
}
