package directory

import (
	"fmt"
	"sync/atomic"
	"time"

	"examprep.dev/server/keys"
)

// contents are the keys and tiers as of one change.
type contents struct {
	// number is the number of the newest change that is applied. A reader loads it before it looks up a key: the key is then of
	// this change or a later one.
	number atomic.Int64
	// told is the number that Redis confirmed for these contents, 0 for none. It does not survive a load: then PostgreSQL may
	// have lost the change that it is about.
	told  atomic.Int64
	keys  table
	tiers atomic.Pointer[tiers]
	// unreadable is the number of keys whose rows cannot be read, for the metric.
	unreadable atomic.Int64

	// Only the directory's goroutine uses the rest.

	names      []string          // of tiers that keys have; entry.tier is an index. The first is empty.
	indexes    map[string]uint32 // of names
	staleTiers bool              // a key has a tier that was not there when the tiers were read
	badKeys    map[keyHash]bool
	bad        error // of the last unreadable row
}

// tiers are all rate tiers as of one moment, with those of entries. They are never changed.
type tiers struct {
	*keys.Tiers

	own []ownTier // by the index in contents.names
}

// ownTier is a tier by its name: nil if it cannot be read, or if there is none.
type ownTier struct {
	tier   *keys.Tier
	exists bool
}

func newContents(shards int) *contents {
	c := &contents{keys: newTable(shards), names: []string{""}, indexes: map[string]uint32{"": 0}, badKeys: map[keyHash]bool{}}
	c.tiers.Store(&tiers{Tiers: keys.NewTiers(nil)})
	return c
}

// put adds a key, given without the numbers of its prefix and tier. One with an unreadable prefix is removed and noted. A tier
// that is new here must be read before a reader can see the key.
func (c *contents) put(e entry, prefix, tier string) {
	var readable bool
	if e.prefix, readable = keys.PrefixNumber([]byte(prefix)); !readable {
		c.keys.remove(&e.hash)
		c.badKeys[e.hash] = true
		c.unreadable.Store(int64(len(c.badKeys)))
		c.bad = fmt.Errorf("unreadable row: the prefix of key %s is %q", e.key, prefix)
		return
	}
	e.tier = c.tierIndex(tier)
	c.keys.put(&e)
	c.clearBad(&e.hash)
}

// remove deletes a key that is revoked, expired or gone.
func (c *contents) remove(hash *keyHash) {
	c.keys.remove(hash)
	c.clearBad(hash)
}

func (c *contents) clearBad(hash *keyHash) {
	if c.badKeys[*hash] {
		delete(c.badKeys, *hash)
		c.unreadable.Store(int64(len(c.badKeys)))
	}
}

// tierIndex returns the index of a tier's name.
func (c *contents) tierIndex(name string) uint32 {
	index, known := c.indexes[name]
	if !known {
		index = uint32(len(c.names))
		c.names, c.indexes[name] = append(c.names, name), index
	}
	own := c.tiers.Load().own
	c.staleTiers = c.staleTiers || index != 0 && (int(index) >= len(own) || !own[index].exists)
	return index
}

// setTiers replaces the tiers.
func (c *contents) setTiers(read *keys.Tiers) {
	t := &tiers{Tiers: read, own: make([]ownTier, len(c.names))}
	for i, name := range c.names {
		t.own[i].tier, t.own[i].exists = t.Named(name)
	}
	c.tiers.Store(t)
	c.staleTiers = false
}

// used returns the memory that the keys take, in bytes.
func (c *contents) used() int64 {
	_, bytes := c.keys.size()
	return int64(bytes)
}

// find returns an active key at a time of PostgreSQL.
func (c *contents) find(hash *keyHash, now time.Time) (Key, bool) {
	e, ok := c.keys.find(hash)
	if !ok || e.expired(now) {
		return Key{}, false
	}
	t := c.tiers.Load()
	var own ownTier
	if int(e.tier) < len(t.own) {
		own = t.own[e.tier]
	} else {
		own.exists = e.tier != 0 // it is not read yet, so the key does not pass
	}
	tier := t.Resolve(own.tier, own.exists, e.prefix, e.account)
	if tier == nil { // it cannot be read
		return Key{}, false
	}
	return Key{Identity: keys.Identity{KeyID: e.key, FamilyID: e.family, AccountID: e.account}, Tier: tier}, true
}
