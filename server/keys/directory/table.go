package directory

import (
	"encoding/binary"
	"sync"
	"time"
	"unsafe"

	"github.com/google/uuid"
)

const (
	// shardCount divides the table, so that readers rarely wait for a change.
	shardCount = 64
	// chunkSize is a number of entries. A chunk is 1,280 bytes, which the allocator does not round up.
	chunkSize = 16
	// smallestIndex is the length of an index of few entries.
	smallestIndex = 16
)

// keyHash is the first half of a key's SHA-256.
type keyHash [16]byte

// entry is an active key: 80 bytes without a pointer, so the collector never reads it.
type entry struct {
	hash                 keyHash
	key, family, account uuid.UUID
	expiry               int64  // µs since 1970; 0: never
	prefix               uint32 // the 8 hexadecimal digits
	tier                 uint32 // index of the key's own tier in contents.names; 0: none
}

func (e *entry) expired(now time.Time) bool { return e.expiry != 0 && now.UnixMicro() >= e.expiry }

// table is a hash table of entries. Hashes are random, so their bytes are used as they are.
type table struct {
	shards []shard
}

// shard is a part of a table. Entries are numbered from 1 and have no gaps.
type shard struct {
	mu     sync.RWMutex
	chunks []*[chunkSize]entry
	count  uint32
	index  []uint32 // numbers of entries, 0 for a free place; linear probing; the length is a power of two
}

func newTable(shards int) table {
	t := table{shards: make([]shard, shards)}
	for i := range t.shards {
		t.shards[i].index = make([]uint32, smallestIndex)
	}
	return t
}

func (t *table) shardOf(hash *keyHash) *shard { return &t.shards[int(hash[0])%len(t.shards)] }

// entry returns the entry of a number.
func (s *shard) entry(number uint32) *entry {
	return &s.chunks[(number-1)/chunkSize][(number-1)%chunkSize]
}

// home returns the first place of a hash in the index.
func (s *shard) home(hash *keyHash) uint32 {
	return binary.LittleEndian.Uint32(hash[8:]) & uint32(len(s.index)-1)
}

// slot returns the place of a hash in the index, or the free place where it would be.
func (s *shard) slot(hash *keyHash) uint32 {
	at := s.home(hash)
	for s.index[at] != 0 && s.entry(s.index[at]).hash != *hash {
		at = (at + 1) & uint32(len(s.index)-1)
	}
	return at
}

// find returns the entry of a hash.
func (t *table) find(hash *keyHash) (e entry, ok bool) {
	s := t.shardOf(hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	number := s.index[s.slot(hash)]
	if number == 0 {
		return entry{}, false
	}
	return *s.entry(number), true
}

// put adds or replaces an entry.
func (t *table) put(e *entry) {
	s := t.shardOf(&e.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.slot(&e.hash)
	if number := s.index[at]; number != 0 {
		*s.entry(number) = *e
		return
	}
	if int(s.count) == len(s.chunks)*chunkSize {
		s.chunks = append(s.chunks, new([chunkSize]entry))
	}
	s.count++
	*s.entry(s.count) = *e
	s.index[at] = s.count
	if 4*int(s.count) > 3*len(s.index) {
		s.index = make([]uint32, 2*len(s.index))
		for number := uint32(1); number <= s.count; number++ {
			s.index[s.slot(&s.entry(number).hash)] = number
		}
	}
}

// remove deletes the entry of a hash, if there is one.
func (t *table) remove(hash *keyHash) {
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	hole := s.slot(hash)
	number := s.index[hole]
	if number == 0 {
		return
	}
	if last := s.entry(s.count); number != s.count { // the last entry takes its number
		s.index[s.slot(&last.hash)] = number
		*s.entry(number) = *last
	}
	s.count--
	if spare := len(s.chunks) - 1; int(s.count) <= (spare-1)*chunkSize { // one more than necessary is kept
		s.chunks[spare] = nil
		s.chunks = s.chunks[:spare]
	}
	s.index[hole] = 0
	mask := uint32(len(s.index) - 1)
	for at := (hole + 1) & mask; s.index[at] != 0; at = (at + 1) & mask {
		// An entry can fill the hole if its home is not between the hole and its place.
		if home := s.home(&s.entry(s.index[at]).hash); (at-home)&mask >= (at-hole)&mask {
			s.index[hole], s.index[at] = s.index[at], 0
			hole = at
		}
	}
}

// removeExpired deletes the entries whose expiry has passed at a time of PostgreSQL.
func (t *table) removeExpired(now time.Time) {
	for i := range t.shards {
		s := &t.shards[i]
		var expired []keyHash
		s.mu.RLock()
		for number := uint32(1); number <= s.count; number++ {
			if e := s.entry(number); e.expired(now) {
				expired = append(expired, e.hash)
			}
		}
		s.mu.RUnlock()
		for at := range expired {
			t.remove(&expired[at])
		}
	}
}

// size returns the number of entries and the memory that they take, in bytes.
func (t *table) size() (entries, bytes int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		entries += int(s.count)
		bytes += len(s.chunks)*chunkSize*int(unsafe.Sizeof(entry{})) + 8*cap(s.chunks) + 4*len(s.index)
		s.mu.RUnlock()
	}
	return entries, bytes
}
