package gate_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/netip"
	"sync"
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
	g := gate.New(patient(gate.Config{Prefix: h.prefix, Now: func() time.Time { return now }}), h.rdb, loader)
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

// TestAFloodFromManyAddressesIsNotLookedUp: all addresses together have 50 wrong guesses looked up at once. After that,
// while no time passes, each new address has one, and those who guessed before are limited; a clean address has its key
// loaded.
func TestAFloodFromManyAddressesIsNotLookedUp(t *testing.T) {
	const addresses, rounds, together = 60, 4, 50
	h := newHouse(t, nil)
	loader, start := &countingLoader{Reader: keys.NewReader(h.pool)}, time.Now()
	var passed atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	g := gate.New(patient(gate.Config{Prefix: h.prefix, Now: now}), h.rdb, loader)
	address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(n >> 8), byte(n)}) }
	next := 0
	flood := func(rounds int) int64 {
		before := loader.keys.Load()
		for range rounds {
			for n := range addresses {
				next++
				d := g.Check(t.Context(), bearer(wellFormed(next)), address(n))
				if d.Outcome != gate.Unauthorized && d.Outcome != gate.Limited {
					t.Fatalf("an unknown key: %+v", d)
				}
			}
		}
		return loader.keys.Load() - before
	}
	// The first round has a guess of each address looked up, the first 50 by the common allowance.
	if looked := flood(rounds); looked != addresses {
		t.Errorf("%d of %d unknown keys were looked up, want %d", looked, rounds*addresses, addresses)
	}
	cold, late := h.create(t, ""), h.create(t, "")
	if d := g.Check(t.Context(), bearer(cold.Key), netip.MustParseAddr("192.0.2.200")); d.Outcome != gate.Allowed {
		t.Errorf("a key that must be looked up, from a clean address: %+v", d)
	}
	if d := g.Check(t.Context(), bearer(late.Key), address(1)); d.Outcome != gate.Limited || d.RetryAfter <= 0 {
		t.Errorf("a key that must be looked up, from an address of the flood: %+v", d)
	}
	// A second brings 20 guesses for all of them, and half a minute a clean record to each.
	passed.Add(int64(time.Second))
	if looked := flood(1); looked < 20 || looked > 21 {
		t.Errorf("%d unknown keys were looked up a second later, want 20", looked)
	}
	passed.Add(int64(31 * time.Second))
	if d := g.Check(t.Context(), bearer(late.Key), address(1)); d.Outcome != gate.Allowed {
		t.Errorf("after the flood, from one of its addresses: %+v", d)
	}
	if looked := flood(rounds); looked < together || looked > addresses {
		t.Errorf("%d unknown keys were looked up after a pause, want %d to %d", looked, together, addresses)
	}
}

// TestGuessesThatBeginTogetherKeepTheBound: 200 at once from addresses that guessed wrong before, which the common allowance
// of 50, less the 8 it took to come under suspicion, bounds.
func TestGuessesThatBeginTogetherKeepTheBound(t *testing.T) {
	const addresses, together = 8, 200
	h := newHouse(t, nil)
	loader, now := &countingLoader{Reader: keys.NewReader(h.pool)}, time.Now()
	g := gate.New(patient(gate.Config{Prefix: h.prefix, Now: func() time.Time { return now }}), h.rdb, loader)
	address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(n % addresses)}) }
	for n := range addresses {
		g.Check(t.Context(), bearer(wellFormed(n)), address(n))
	}
	start := make(chan struct{})
	var guessing sync.WaitGroup
	for n := range together {
		guessing.Go(func() {
			<-start
			g.Check(t.Context(), bearer(wellFormed(addresses+n)), address(n))
		})
	}
	close(start)
	guessing.Wait()
	if looked := loader.keys.Load(); looked != 50 {
		t.Errorf("%d unknown keys were looked up, want 50", looked)
	}
}

// TestMalformedKeysCostNoLookUp: the check within a key's text spares both stores.
func TestMalformedKeysCostNoLookUp(t *testing.T) {
	h := newHouse(t, nil)
	loader := &countingLoader{Reader: keys.NewReader(h.pool)}
	g := gate.New(patient(gate.Config{Prefix: h.prefix}), h.rdb, loader)
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
