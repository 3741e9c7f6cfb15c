package ratelimit

import (
	"encoding/binary"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// fill stores n buckets from number first on. Each misses tokens that its rate brings back within a minute of at.
func fill(t *testing.T, rdb redis.UniversalClient, name string, first, n int, at time.Time) {
	t.Helper()
	var value []byte
	for _, part := range []float64{float64(at.UnixMicro()), 60e6, 6e6} { // ten requests a minute
		value = binary.LittleEndian.AppendUint64(value, math.Float64bits(part))
	}
	value = binary.LittleEndian.AppendUint32(value, 1)
	pipe := rdb.Pipeline()
	for i := first; i < first+n; i++ {
		pipe.HSet(t.Context(), name, binary.BigEndian.AppendUint64(make([]byte, len(ID{})-8), uint64(i)), value)
	}
	_, err := pipe.Exec(t.Context())
	check.NoError(t, err)
}

// TestBucketIsPurgedFromTheMomentThatItIsFull, and not a microsecond before.
func TestBucketIsPurgedFromTheMomentThatItIsFull(t *testing.T) {
	rdb, prefix := testkit.Redis(t)
	take, purge := atTime(t, takeText, 4), atTime(t, purgeText, 3)
	name, now := prefix+"buckets", time.Now().UnixMicro()
	g := groupOf(&call{Request: request{rate: mustRate(t, 10, time.Minute, 10)}})
	g.cmd = take.Run(t.Context(), rdb, []string{name}, g.fields, g.counts, g.limits, now)
	if err := g.answer(); err != nil || g.items[0].granted != 1 {
		t.Fatalf("got %+v, %v", g.items, err)
	}
	full := now + (6 * time.Second).Microseconds()
	for at, want := range map[int64]int64{now: 1, full - 1: 1} {
		check.NoError(t, purge.Run(t.Context(), rdb, []string{name}, 0, 100, at).Err())
		check.Equal(t, rdb.HLen(t.Context(), name).Val(), want, "%d µs before it is full: buckets", full-at)
	}
	check.NoError(t, purge.Run(t.Context(), rdb, []string{name}, 0, 100, full).Err())
	check.Equal(t, rdb.HLen(t.Context(), name).Val(), 0, "full: buckets")
}

// TestPurgeKeepsUp: a beat deletes what is full in 32 steps of 256 buckets.
func TestPurgeKeepsUp(t *testing.T) {
	rdb, prefix := testkit.Redis(t)
	const full, used = 30_000, 300
	r := newStore(prefix, rdb, time.Now)
	name := r.hashes[0]
	fill(t, rdb, name, 0, used, time.Now().Add(time.Hour))
	fill(t, rdb, name, used, full, time.Now().Add(-2*time.Hour))
	var p purger
	beats := 0
	for ; rdb.HLen(t.Context(), name).Val() > used && beats < 20; beats++ {
		check.NoError(t, p.purge(t.Context(), r, testkit.Patience))
	}
	if left := rdb.HLen(t.Context(), name).Val(); left != used || beats > 8 {
		t.Errorf("%d left of %d after %d beats", left, used+full, beats)
	}
	if ttl := rdb.TTL(t.Context(), name).Val(); ttl < 6*24*time.Hour {
		t.Errorf("the hash expires in %v", ttl)
	}
}

// TestBeatWithLittleToDeleteReadsLittle: one step, however large the hash is.
func TestBeatWithLittleToDeleteReadsLittle(t *testing.T) {
	rdb, prefix := testkit.Redis(t)
	r := newStore(prefix, rdb, time.Now)
	fill(t, rdb, r.hashes[0], 0, 5_000, time.Now().Add(time.Hour))
	var stepwise, whole purger
	read, deleted, err := stepwise.step(t.Context(), r, testkit.Patience)
	if err != nil || deleted != 0 || read < purgeCount/2 || read > 2*purgeCount {
		t.Errorf("read %d, deleted %d, %v", read, deleted, err)
	}
	check.NoError(t, whole.purge(t.Context(), r, testkit.Patience))
	if whole.cursor != stepwise.cursor || whole.cursor == 0 {
		t.Errorf("a beat ends at cursor %d, a step at %d", whole.cursor, stepwise.cursor)
	}
}

func TestPurgeVisitsEveryHash(t *testing.T) {
	rdb, prefix := testkit.Redis(t)
	r := newStore(prefix, rdb, time.Now)
	r.hashes = nil
	for i := range 256 { // as on a Cluster
		r.hashes = append(r.hashes, prefix+strconv.Itoa(i))
		fill(t, rdb, r.hashes[i], 0, 2, time.Now().Add(-2*time.Hour))
	}
	var p purger
	for beat := 0; rdb.Exists(t.Context(), r.hashes...).Val() > 0; beat++ {
		if beat > len(r.hashes) {
			t.Fatal("some hash is not purged")
		}
		check.NoError(t, p.purge(t.Context(), r, testkit.Patience))
	}
}
