package directory

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

// contents are the keys and tiers as of one change.
type contents struct {
	// number is the number of the newest change that is applied. A reader loads it before it looks up a key: the key is then of
	// this change or a later one.
	number atomic.Int64
	keys   table
	tiers  atomic.Pointer[tiers]

	mu         sync.Mutex // of what follows; only the directory's goroutine and metrics take it
	names      []string   // of tiers that keys have; entry.tier is an index. The first is empty.
	unreadable map[keyHash]bool
	badRows    int // rows whose hash is unreadable too
}

func newContents() *contents { return newContentsOf(shardCount) }

func newContentsOf(shards int) *contents {
	c := &contents{keys: table{shards: make([]shard, shards)}, names: []string{""}}
	c.tiers.Store(&tiers{Tiers: keys.NewTiers(nil)})
	return c
}

// row is a key in PostgreSQL.
type row struct {
	hash                 []byte
	key, family, account uuid.UUID
	prefix, tier         []byte // valid during the call only
	expiry               int64  // µs since 1970; 0: never
}

// RowError reports a row of PostgreSQL that the directory cannot read. Its key is refused.
type RowError struct{ Detail string }

func (e *RowError) Error() string { return "unreadable row: " + e.Detail }

// put adds a key, or removes it if the row is unreadable. It reports whether the key's tier is known.
func (c *contents) put(r row) (known bool, err error) {
	if len(r.hash) < len(keyHash{}) {
		c.badRow()
		return true, &RowError{Detail: fmt.Sprintf("the hash of key %s has %d bytes", r.key, len(r.hash))}
	}
	e := entry{hash: keyHash(r.hash[:len(keyHash{})]), key: r.key, account: r.account}
	var readable bool
	if e.prefix, readable = keys.PrefixNumber(r.prefix); !readable {
		c.keys.remove(&e.hash)
		c.mu.Lock()
		if c.unreadable == nil {
			c.unreadable = map[keyHash]bool{}
		}
		c.unreadable[e.hash] = true
		c.mu.Unlock()
		return true, &RowError{Detail: fmt.Sprintf("the prefix of key %s is %q", r.key, r.prefix)}
	}
	binary.LittleEndian.PutUint64(e.expiry[:], uint64(r.expiry))
	e.tier, known = c.tierIndex(r.tier)
	if len(c.unreadable) > 0 { // nothing else writes it, so reading needs no lock
		c.mu.Lock()
		delete(c.unreadable, e.hash)
		c.mu.Unlock()
	}
	c.keys.put(e, r.family)
	return known, nil
}

// badRow counts a row whose key is unknown.
func (c *contents) badRow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.badRows++
}

// remove deletes a key that is revoked, expired or gone.
func (c *contents) remove(hash *keyHash) {
	c.keys.remove(hash)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unreadable, *hash)
}

// tierIndex returns the index of a tier's name, and whether the tier was there when the tiers were read.
func (c *contents) tierIndex(name []byte) (index uint32, known bool) {
	if len(name) == 0 {
		return 0, true
	}
	own := c.tiers.Load().own
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.names { // tens at most
		if other == string(name) {
			return uint32(i), i < len(own) && own[i] != nil
		}
	}
	c.names = append(c.names, string(name))
	return uint32(len(c.names) - 1), false
}

// find returns a live key at a time of PostgreSQL.
func (c *contents) find(hash *keyHash, now time.Time) (Key, bool) {
	e, family, ok := c.keys.find(hash)
	if !ok {
		return Key{}, false
	}
	if expiry := int64(binary.LittleEndian.Uint64(e.expiry[:])); expiry != 0 && now.UnixMicro() >= expiry {
		return Key{}, false
	}
	tier := c.tiers.Load().resolve(&e)
	if tier == nil {
		return Key{}, false
	}
	return Key{Identity: keys.Identity{KeyID: e.key, FamilyID: family, AccountID: e.account}, Tier: tier}, true
}

// unreadableRows returns the number of rows of keys and tiers that could not be read.
func (c *contents) unreadableRows() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unreadable) + c.badRows + c.tiers.Load().Unreadable
}
