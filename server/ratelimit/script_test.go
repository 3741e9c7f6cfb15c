package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// atTime is a script whose clock is its last argument, µs.
func atTime(t testing.TB, text string, argument int) *redis.Script {
	t.Helper()
	changed := strings.Replace(text, "redis.call('TIME')", fmt.Sprintf("{0, tonumber(ARGV[%d])}", argument), 1)
	if changed == text {
		t.Fatal("the script reads no time")
	}
	return redis.NewScript(changed)
}

// model is a bucket in the plainest whole numbers: units of 1/period of a token that were missing at a time.
type model struct {
	rate        Rate
	missing, at uint64
	used        bool
}

func (m *model) missingAt(now uint64) uint64 {
	if now <= m.at {
		return m.missing
	}
	return m.missing - min(m.missing, (now-m.at)*uint64(m.rate.requests))
}

func (m *model) take(r Rate, now uint64, n int) (granted int, missing uint64) {
	if !m.used {
		*m = model{rate: r, at: now, used: true}
	}
	missing = m.missingAt(now)
	if m.rate.period != r.period { // round up: no token comes from nothing
		missing = uint64(-floorDiv(-int64(missing)*int64(r.period), int64(m.rate.period)))
	}
	capacity := uint64(r.burst) * r.period
	missing = min(missing, capacity)
	granted = int(min(uint64(n), (capacity-missing)/r.period))
	missing += uint64(granted) * r.period
	if granted > 0 || now < m.at || m.rate.period != r.period || m.rate.requests != r.requests {
		*m = model{rate: r, at: now, missing: missing, used: true} // else the next take computes the same again
	}
	return granted, missing
}

// purge deletes a full bucket: it stays full even if the clock steps back later.
func (m *model) purge(now uint64) { m.used = m.used && m.missingAt(now) > 0 }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func groupOf(calls ...*call) *group {
	var g group
	for _, c := range calls {
		g.add(c)
	}
	g.encode()
	return &g
}

func mustRate(t testing.TB, requests int, period time.Duration, burst int) Rate {
	t.Helper()
	r, err := NewRate(requests, period, burst)
	check.NoError(t, err)
	return r
}

// TestScriptCountsAsTheModelDoes plays takes of several tokens from several buckets, with clocks that step in both directions and
// rates that change, and purges in between, which must change nothing.
func TestScriptCountsAsTheModelDoes(t *testing.T) {
	rdb, prefix := testkit.Redis(t)
	take, purge := atTime(t, takeText, 4), atTime(t, purgeText, 3)
	rates := []Rate{
		mustRate(t, 120, time.Minute, 120), mustRate(t, 1, time.Hour, 2), mustRate(t, 97, 1013*time.Millisecond, 7),
		mustRate(t, 1_000_000, time.Second, 1_000_000), mustRate(t, 3, time.Millisecond, 1),
	}
	granted, denied, play := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		play++
		name := prefix + strconv.Itoa(play)
		buckets := make([]model, 3)
		now := uint64(time.Now().UnixMicro())
		steps := rapid.IntRange(1, 25).Draw(t, "steps")
		for range steps {
			now += uint64(rapid.SampledFrom([]int64{0, 1, 300, 8000, 500_000, 61_000_000, 3_600_000_000, -3_600_000_000, -5000}).Draw(t, "pause"))
			rate := rates[rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4}).Draw(t, "rate")]
			var calls []*call
			var want []int
			var wantMissing []uint64
			for i := range buckets {
				n := rapid.SampledFrom([]int{0, 1, 1, 2, 5, 50}).Draw(t, "tokens")
				if n == 0 {
					continue
				}
				for range n {
					calls = append(calls, &call{Request: request{id: ID{1: byte(i)}, rate: rate}})
				}
				granted, missing := buckets[i].take(rate, now, n)
				want, wantMissing = append(want, granted), append(wantMissing, missing)
			}
			if len(calls) == 0 {
				continue
			}
			g := groupOf(calls...)
			g.cmd = take.Run(t.Context(), rdb, []string{name}, g.fields, g.counts, g.limits, now)
			check.NoError(t, g.answer())
			for i, it := range g.items {
				if it.granted != want[i] || it.missing != float64(wantMissing[i]) {
					t.Fatalf("at %d: bucket %v: got %+v, want %d granted and %d units missing", now, g.ids[i], it, want[i], wantMissing[i])
				}
				granted += want[i]
				denied += it.asked - want[i]
			}
			if rapid.Bool().Draw(t, "purge") {
				check.NoError(t, purge.Run(t.Context(), rdb, []string{name}, 0, 100, now).Err())
				for i := range buckets {
					buckets[i].purge(now)
				}
			}
		}
	})
	if granted == 0 || denied == 0 {
		t.Errorf("%d granted, %d denied: the schedules do not cover both", granted, denied)
	}
}

func TestRateIsInLowestTerms(t *testing.T) {
	check.Equal(t, mustRate(t, 120, time.Minute, 120), Rate{period: 500_000, requests: 1, burst: 120}, "rate")
	for _, c := range []struct {
		requests int
		period   time.Duration
		burst    int
	}{{0, time.Second, 1}, {1, 0, 1}, {1, time.Second, 0}, {1, 1500, 1}, {1, 31 * 24 * time.Hour, 10_000_000}, {1 << 33, time.Second, 1}} {
		if r, err := NewRate(c.requests, c.period, c.burst); err == nil {
			t.Errorf("%+v: got %+v, want a RateError", c, r)
		}
	}
}
