package gate

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"examprep.dev/server/keys"
)

// TestTheSweepDeletesWhatIsPast: each kind of entry outlives the moment before its end, and not the end.
func TestTheSweepDeletesWhatIsPast(t *testing.T) {
	c := newScriptClient(t)
	record := someRecord(keys.Tier{Requests: 10, Period: time.Minute, Burst: 10}) // full within a minute
	active := func() { c.put(t, c.ticket(t), record) }
	for name, entry := range map[string]struct {
		life time.Duration
		make func()
	}{
		"a record": {time.Hour + 2*time.Minute, active},
		"a record with a bucket that was used": {time.Hour + 2*time.Minute, func() {
			active()
			c.check(t, 10)
		}},
		"a record of an earlier term that is loaded": {time.Hour + 2*time.Minute, func() {
			active()
			c.term = termBytes(2)
			c.ticket(t)
		}},
		"a revocation": {10 * time.Minute, func() {
			revoked := record
			revoked.Revoked = true
			c.announce(t, revoked)
		}},
		"a key that was not found": {10 * time.Second, func() {
			c.do(t, "p", c.key.field(), c.ticket(t), versionBytes(0), []byte{statusAbsent})
		}},
		"a ticket": {10 * time.Second, func() { c.ticket(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			c.term = termBytes(1)
			c.rdb.Del(t.Context(), c.name)
			entry.make()
			c.now += entry.life.Microseconds() - 1
			if deleted := c.sweep(t); deleted != 0 || c.held() == "" {
				t.Fatalf("a microsecond before its end: %d deleted", deleted)
			}
			c.now++
			if deleted := c.sweep(t); deleted != 1 || c.held() != "" {
				t.Errorf("at its end: %d deleted", deleted)
			}
		})
	}
}

func TestAKeyThatWasNotFoundIsLookedForAgainInTime(t *testing.T) {
	c := newScriptClient(t)
	c.do(t, "p", c.key.field(), c.ticket(t), versionBytes(0), []byte{statusAbsent})
	if v := c.check(t, 1); v.status != statusAbsent {
		t.Fatalf("at once: %+v", v)
	}
	if ticket := c.ticket(t); ticket != "" {
		t.Error("a load begins though the answer is known")
	}
	for _, step := range []time.Duration{11 * time.Second, -time.Hour} { // the clock may be set back as well
		c.now += step.Microseconds()
		if v := c.check(t, 1); v.status != answerUnverified {
			t.Errorf("after %v: %+v", step, v)
		}
	}
	if !c.put(t, c.ticket(t), someRecord(keys.Tier{Requests: 1, Period: time.Second, Burst: 1})) {
		t.Error("a load cannot end")
	}
	if v := c.check(t, 1); v.status != statusActive {
		t.Errorf("loaded: %+v", v)
	}
}

// sweepingGate returns a gate that has settled with the Redis of c, without a database.
func sweepingGate(t *testing.T, c *scriptClient, records []string) *Gate {
	t.Helper()
	sha, err := c.rdb.ScriptLoad(t.Context(), script).Result()
	if err != nil {
		t.Fatal(err)
	}
	g := New(Config{CallTimeout: 20 * time.Second}, c.rdb, nil)
	g.records = records
	g.trust.Store(&trust{sha: sha, term: c.term, blind: true})
	return g
}

// fill puts n entries of 104 bytes into a hash, last used at `at`.
func fill(t *testing.T, c *scriptClient, name string, first, n int, at time.Time) {
	t.Helper()
	static := staticBytes(someRecord(keys.Tier{Requests: 10, Period: time.Minute, Burst: 10}))
	value := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(at.UnixMicro())))
	value = append(value, make([]byte, 8+termSize+versionSize)...)
	value = append(value, static...)
	pipe := c.rdb.Pipeline()
	for i := first; i < first+n; i++ {
		pipe.HSet(t.Context(), name, binary.BigEndian.AppendUint64(make([]byte, fieldSize-8), uint64(i)), value)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestASweepKeepsUp: a beat deletes what is in 32 steps of 256 entries.
func TestASweepKeepsUp(t *testing.T) {
	c := newScriptClient(t)
	const past, live = 30_000, 300
	fill(t, c, c.name, 0, live, time.Now())
	fill(t, c, c.name, live, past, time.Now().Add(-2*time.Hour))
	g := sweepingGate(t, c, []string{c.name})
	beats := 0
	for ; c.rdb.HLen(t.Context(), c.name).Val() > live && beats < 20; beats++ {
		g.sweep(context.Background())
	}
	if left := c.rdb.HLen(t.Context(), c.name).Val(); left != live || beats > 8 {
		t.Errorf("%d left of %d after %d beats", left, live+past, beats)
	}
	if ttl := c.rdb.TTL(t.Context(), c.name).Val(); ttl < 6*24*time.Hour {
		t.Errorf("the hash ends in %v", ttl)
	}
}

// TestABeatWithLittleToDeleteLooksAtLittle: one step, however large the hash is.
func TestABeatWithLittleToDeleteLooksAtLittle(t *testing.T) {
	c := newScriptClient(t)
	fill(t, c, c.name, 0, 5_000, time.Now())
	g := sweepingGate(t, c, []string{c.name})
	seen, deleted, err := g.sweepStep(t.Context(), g.trust.Load())
	if err != nil || deleted != 0 || seen < sweepCount/2 || seen > 2*sweepCount {
		t.Errorf("saw %d, deleted %d, %v", seen, deleted, err)
	}
	before := g.sweeper.cursor
	g.sweep(context.Background())
	if g.sweeper.cursor == before || g.sweeper.cursor == 0 {
		t.Errorf("from cursor %d to %d", before, g.sweeper.cursor)
	}
}

func TestTheSweepVisitsEveryHash(t *testing.T) {
	c := newScriptClient(t)
	names := recordsNames(c.name, true)
	for _, name := range names {
		fill(t, c, name, 0, 2, time.Now().Add(-2*time.Hour))
	}
	g := sweepingGate(t, c, names)
	for beat := 0; c.rdb.Exists(t.Context(), names...).Val() > 0; beat++ {
		if beat > len(names) {
			t.Fatal("some hash is not swept")
		}
		g.sweep(context.Background())
	}
}
