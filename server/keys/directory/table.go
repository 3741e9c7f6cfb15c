package directory

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"github.com/google/uuid"
)

// shardCount divides the table, so that readers rarely wait for a change.
const shardCount = 64

// keyHash is the first half of a key's SHA-256.
type keyHash [16]byte

// entry is a live key: 68 bytes without a pointer, so the collector never reads it.
type entry struct {
	hash         keyHash
	key, account uuid.UUID
	expiry       [8]byte // µs since 1970, little-endian; 0: never
	family       uint32  // index in shard.families, plus one; 0: the key's own id
	prefix       uint32  // the 8 hexadecimal digits
	tier         uint32  // index of the key's own tier in contents.names; 0: none
}

// table is a hash table of entries. Hashes are random, so their bytes are used as they are.
type table struct {
	shards []shard
}

type shard struct {
	mu       sync.RWMutex
	entries  []entry
	index    []uint32 // of an entry, plus one; linear probing; the length is a power of two
	families []uuid.UUID
}

func (t *table) shardOf(hash *keyHash) *shard { return &t.shards[int(hash[0])%len(t.shards)] }

func home(hash *keyHash) uint32 { return binary.LittleEndian.Uint32(hash[8:]) }

// slot returns the place of a hash in the index, or the free place where it would be.
func (s *shard) slot(hash *keyHash) uint32 {
	mask := uint32(len(s.index) - 1)
	at := home(hash) & mask
	for s.index[at] != 0 && s.entries[s.index[at]-1].hash != *hash {
		at = (at + 1) & mask
	}
	return at
}

// find returns the entry of a hash and the id of its family.
func (t *table) find(hash *keyHash) (e entry, family uuid.UUID, ok bool) {
	s := t.shardOf(hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.index) == 0 {
		return entry{}, uuid.UUID{}, false
	}
	at := s.index[s.slot(hash)]
	if at == 0 {
		return entry{}, uuid.UUID{}, false
	}
	e = s.entries[at-1]
	if e.family == 0 {
		return e, e.key, true
	}
	return e, s.families[e.family-1], true
}

// put adds or replaces an entry.
func (t *table) put(e entry, family uuid.UUID) {
	s := t.shardOf(&e.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if 4*(len(s.entries)+1) > 3*len(s.index) {
		s.grow()
	}
	at := s.slot(&e.hash)
	var old *entry
	if s.index[at] != 0 {
		old = &s.entries[s.index[at]-1]
	}
	switch {
	case family == e.key:
		e.family = 0
	case old != nil && old.family != 0 && s.families[old.family-1] == family:
		e.family = old.family
	default:
		s.families = append(s.families, family)
		e.family = uint32(len(s.families))
	}
	if old != nil {
		*old = e
		return
	}
	if n := len(s.entries); n == cap(s.entries) { // by a sixth: append would add a quarter or more
		s.entries = append(make([]entry, 0, n+n/6+8), s.entries...)
	}
	s.entries = append(s.entries, e)
	s.index[at] = uint32(len(s.entries))
}

// grow doubles the index.
func (s *shard) grow() {
	s.index = make([]uint32, max(2*len(s.index), 16))
	for i := range s.entries {
		s.index[s.slot(&s.entries[i].hash)] = uint32(i + 1)
	}
}

// remove deletes the entry of a hash, if there is one.
func (t *table) remove(hash *keyHash) {
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.index) == 0 {
		return
	}
	hole := s.slot(hash)
	removed, last := s.index[hole], uint32(len(s.entries))
	if removed == 0 {
		return
	}
	if removed != last {
		s.index[s.slot(&s.entries[last-1].hash)] = removed
		s.entries[removed-1] = s.entries[last-1]
	}
	s.entries = s.entries[:last-1]
	mask := uint32(len(s.index) - 1)
	s.index[hole] = 0
	for at := (hole + 1) & mask; s.index[at] != 0; at = (at + 1) & mask {
		// An entry can fill the hole if its home is not between the hole and its place.
		if start := home(&s.entries[s.index[at]-1].hash) & mask; (at-start)&mask >= (at-hole)&mask {
			s.index[hole], s.index[at] = s.index[at], 0
			hole = at
		}
	}
}

// size returns the number of entries and the memory that they take, in bytes.
func (t *table) size() (entries, bytes int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		entries += len(s.entries)
		bytes += cap(s.entries)*int(unsafe.Sizeof(entry{})) + 4*len(s.index) + cap(s.families)*len(uuid.UUID{})
		s.mu.RUnlock()
	}
	return entries, bytes
}
