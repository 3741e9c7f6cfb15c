package gate_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
)

// countingLoader is the real reader and counts the keys that were looked up.
type countingLoader struct {
	*keys.Reader

	keys atomic.Int64
}

func (l *countingLoader) LoadMany(ctx context.Context, hashes []keys.Hash) ([]keys.Record, error) {
	l.keys.Add(int64(len(hashes)))
	return l.Reader.LoadMany(ctx, hashes)
}

// wellFormed is a key that nobody was issued; another for each n.
func wellFormed(n int) string {
	body := fmt.Sprintf("%s%040x", keys.Scheme, n)
	sum := crc32.ChecksumIEEE([]byte(body))
	return body + hex.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// TestAFloodOfUnknownKeysIsNotLookedUp: an address has 20 wrong guesses looked up at once, and no more until time has
// passed, which it does not here. Keys that the pods know, and other addresses, are served as before.
func TestAFloodOfUnknownKeysIsNotLookedUp(t *testing.T) {
	h := newHouse(t, nil)
	loader, now := &countingLoader{Reader: keys.NewReader(h.pool)}, time.Now()
	g := gate.New(gate.Config{Prefix: h.prefix, Now: func() time.Time { return now }}, h.rdb, loader)
	known, cold := h.create(t, ""), h.create(t, "")
	if !allowed(g, known) {
		t.Fatal("a good key is refused")
	}
	before := loader.keys.Load()
	for n := range 300 {
		d := g.Check(t.Context(), bearer(wellFormed(n)), client)
		if d.Outcome != gate.Unauthorized && d.Outcome != gate.Limited {
			t.Fatalf("an unknown key: %+v", d)
		}
	}
	const guesses = 20
	if looked := loader.keys.Load() - before; looked != guesses {
		t.Errorf("%d of 300 unknown keys were looked up, want %d", looked, guesses)
	}
	if !allowed(g, known) {
		t.Error("a known key is refused to who shares the flood's address")
	}
	if d := g.Check(t.Context(), bearer(cold.Key), netip.MustParseAddr("192.0.2.200")); d.Outcome != gate.Allowed {
		t.Errorf("a key that must be looked up, from another address: %+v", d)
	}
}

// TestMalformedKeysCostNoLookUp: the check within a key's text spares both stores.
func TestMalformedKeysCostNoLookUp(t *testing.T) {
	h := newHouse(t, nil)
	loader := &countingLoader{Reader: keys.NewReader(h.pool)}
	g := gate.New(gate.Config{Prefix: h.prefix}, h.rdb, loader)
	for n := range 300 {
		text := []byte(wellFormed(n))
		text[len(text)-1] ^= 1
		if d := g.Check(t.Context(), bearer(string(text)), client); d.Outcome != gate.Unauthorized && d.Outcome != gate.Limited {
			t.Fatalf("a malformed key: %+v", d)
		}
	}
	if looked := loader.keys.Load(); looked != 0 {
		t.Errorf("%d malformed keys were looked up", looked)
	}
}
