package directory

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"

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
		table, want := newContentsOf(2).keys, map[keyHash]value{}
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
			table.put(entry{hash: hash, key: uuid.UUID{byte(n)}, prefix: v.prefix}, v.family)
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
			e, family, ok := table.find(&hash)
			v, there := want[hash]
			if ok != there || (ok && (e.prefix != v.prefix || family != v.family || e.hash != hash)) {
				t.Fatalf("key %d: got %v, %v, %v; want %v, %v", n, e.prefix, family, ok, v, there)
			}
		}
	})
}

// FuzzCopy gives the reader of COPY any bytes in pieces: it must not panic, and pieces must not matter.
func FuzzCopy(f *testing.F) {
	header := append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	f.Add(append(slices.Clone(header), 0xff, 0xff), 3)
	f.Add(append(slices.Clone(header), 0, 7, 0xff, 0xff, 0xff, 0xff), 1)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		read := func(piece int) (rows, bad int, failed bool) {
			r := &copyReader{row: func(_ row, err error) {
				if err != nil {
					bad++
				} else {
					rows++
				}
			}}
			for part := range slices.Chunk(stream, piece) {
				if _, err := r.Write(part); err != nil {
					return rows, bad, true
				}
			}
			return rows, bad, false
		}
		rows, bad, failed := read(max(len(stream), 1))
		if r, b, e := read(1 + max(piece, -piece-1)%64); r != rows || b != bad || e != failed {
			t.Errorf("in pieces: %d rows, %d bad, failed %v; at once: %d, %d, %v", r, b, e, rows, bad, failed)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	c := newContents()
	hashes := make([]keyHash, 1<<20)
	for i := range hashes {
		sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))
		hashes[i] = keyHash(sum[:len(keyHash{})])
		id := uuid.UUID(hashes[i])
		c.keys.put(entry{hash: hashes[i], key: id}, id)
	}
	i := 0
	for b.Loop() {
		if _, _, ok := c.keys.find(&hashes[i&(1<<20-1)]); !ok {
			b.Fatal("a key is missing")
		}
		i += 7919
	}
	entries, bytes := c.keys.size()
	b.ReportMetric(float64(bytes)/float64(entries), "B/key")
}
