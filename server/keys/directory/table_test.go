package directory

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// TestTableAgreesWithAMap puts, replaces and removes keys whose homes collide.
func TestTableAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type value struct {
			prefix uint32
			family uuid.UUID
		}
		table, want := newTable(2), map[keyHash]value{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			var hash keyHash
			n := rapid.Uint32Range(0, 40).Draw(t, "key")
			hash[0] = byte(n)
			binary.LittleEndian.PutUint32(hash[8:], n%5*7) // few homes, some at the end of a small index
			if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				table.remove(&hash)
				delete(want, hash)
				continue
			}
			v := value{prefix: rapid.Uint32().Draw(t, "prefix"), family: uuid.UUID{byte(n)}}
			if rapid.Bool().Draw(t, "rotated") {
				v.family = uuid.UUID{99}
			}
			table.put(&entry{hash: hash, key: uuid.UUID{byte(n)}, family: v.family, prefix: v.prefix})
			want[hash] = v
		}
		entries, bytes := table.size()
		if entries != len(want) || (entries > 0 && bytes == 0) {
			t.Fatalf("size() = %d, %d; want %d entries", entries, bytes, len(want))
		}
		for n := range uint32(41) {
			var hash keyHash
			hash[0] = byte(n)
			binary.LittleEndian.PutUint32(hash[8:], n%5*7)
			e, ok := table.find(&hash)
			v, there := want[hash]
			if ok != there || (ok && (e.prefix != v.prefix || e.family != v.family || e.hash != hash)) {
				t.Fatalf("key %d: got %v, %v, %v; want %v, %v", n, e.prefix, e.family, ok, v, there)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	c := newContents(shardCount)
	hashes := make([]keyHash, 1<<20)
	for i := range hashes {
		sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))
		hashes[i] = keyHash(sum[:len(keyHash{})])
		id := uuid.UUID(hashes[i])
		c.keys.put(&entry{hash: hashes[i], key: id, family: id})
	}
	i := 0
	for b.Loop() {
		if _, ok := c.keys.find(&hashes[i&(1<<20-1)]); !ok {
			b.Fatal("a key is missing")
		}
		i += 7919
	}
	entries, bytes := c.keys.size()
	b.ReportMetric(float64(bytes)/float64(entries), "B/key")
}

func TestRemovedEntriesFreeMemory(t *testing.T) {
	t.Parallel()
	table := newTable(1)
	hash := func(i int) *keyHash { return &keyHash{8: byte(i), 9: byte(i >> 8)} }
	const n = 10 * chunkSize
	for i := range n {
		table.put(&entry{hash: *hash(i)})
	}
	_, full := table.size()
	for i := range n {
		table.remove(hash(i))
	}
	if entries, bytes := table.size(); entries != 0 || bytes > full/4 {
		t.Errorf("%d bytes for %d entries, after %d bytes for %d", bytes, entries, full, n)
	}
}

func TestExpiredEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	table := newTable(shardCount)
	now := time.Unix(1_800_000_000, 0)
	hash := func(i int) keyHash {
		sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))
		return keyHash(sum[:len(keyHash{})])
	}
	const n = 5000
	for i := range n {
		e := entry{hash: hash(i)}
		if i%2 == 0 {
			e.expiry = now.UnixMicro() + int64(i) - n/2 // half of these are over
		}
		table.put(&e)
	}
	table.removeExpired(now)
	for i := range n {
		h := hash(i)
		_, found := table.find(&h)
		if want := i%2 != 0 || i > n/2; found != want {
			t.Fatalf("entry %d: found %v, want %v", i, found, want)
		}
	}
	if entries, _ := table.size(); entries != n/2+n/4-1 {
		t.Errorf("%d entries are left", entries)
	}
}
