package ratelimit_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
)

// rateSpec are the numbers of a rate.
type rateSpec struct {
	requests int
	period   time.Duration
	burst    int
}

// rateSpecs are slow and quick, deep and shallow, odd and even.
func rateSpecs() []rateSpec {
	return []rateSpec{
		{5, time.Second, 3},
		{40, time.Second, 1},
		{97, 1013 * time.Millisecond, 7},
		{120, time.Second, 120},
		{500, time.Second, 2},
		{1, time.Millisecond, 20},
		{1, time.Hour, 11},
	}
}

// burst is some requests for one bucket that were sent together, and their results. Redis decided about each of them
// between from and to, by its own clock (µs).
type burst struct {
	from, to        int64
	granted, denied int
	life            int // of Redis' data
}

// history is all that ever happened to one bucket, in order: bursts of one bucket do not overlap.
type history struct {
	id     ratelimit.ID
	spec   rateSpec
	rate   ratelimit.Rate
	bursts []burst
}

// gained returns the tokens that a continuous bucket gains from one moment to another.
func (h *history) gained(from, to int64) float64 {
	return float64(max(to-from, 0)) * float64(h.spec.requests) / float64(h.spec.period.Microseconds())
}

// check compares a history with the continuous bucket, which is full when the history and each life of Redis' data begin.
//
// Too many: all grants of bursts i to j were made between from(i) and to(j). So they are at most burst × (1 + L) + rate × T, with
// L losses between i and j.
//
// Too few: a denial is right if the bucket held less than one token. At a moment a continuous bucket holds the least, over
// all earlier moments s of this life, of burst + rate × (time since s) − grants since s. With the latest s just before the
// grants of each burst i, and the earliest moment of the denial, that is the least it can have held.
func (h *history) check() error {
	size := float64(h.spec.burst)
	for j, last := range h.bursts {
		grants, least := 0, size
		for i := j; i >= 0; i-- {
			b := h.bursts[i]
			grants += b.granted
			losses := float64(last.life - b.life)
			if most := math.Floor(size*(1+losses) + h.gained(b.from, last.to)); float64(grants) > most {
				return fmt.Errorf("bursts %d to %d of %+v: %d granted, want at most %v", i, j, h, grants, most)
			}
			if b.life == last.life {
				least = min(least, size+h.gained(b.to, last.from)-float64(grants))
			}
		}
		if last.denied > 0 && least >= 1 {
			return fmt.Errorf("burst %d of %+v: %d denied though the bucket held at least %v", j, h, last.denied, least)
		}
	}
	return nil
}

// redisClock is Redis' own.
type redisClock struct{ rdb redis.Cmdable }

func (c redisClock) now(t testing.TB) int64 {
	t.Helper()
	now, err := c.rdb.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMicro()
}

// pass returns when d has passed.
func (c redisClock) pass(t testing.TB, d time.Duration) {
	t.Helper()
	now := c.now(t)
	for end := now + d.Microseconds(); now < end; now = c.now(t) {
		runtime.Gosched()
	}
}

// send sends n requests for each bucket together, to the pods in turn, and records the results.
func send(t testing.TB, c redisClock, life int, pods []*ratelimit.Limiter, n int, histories ...*history) {
	t.Helper()
	granted, denied := make([]atomic.Int64, len(histories)), make([]atomic.Int64, len(histories))
	var group sync.WaitGroup
	from := c.now(t)
	for i, h := range histories {
		for r := range n {
			group.Go(func() {
				switch got, err := pods[r%len(pods)].Take(context.Background(), h.id, h.rate); {
				case err != nil || got.Local:
					t.Errorf("got %+v, %v", got, err)
				case got.Allowed:
					granted[i].Add(1)
				default:
					denied[i].Add(1)
				}
			})
		}
	}
	group.Wait()
	to := c.now(t)
	for i, h := range histories {
		h.bursts = append(h.bursts, burst{from: from, to: to, granted: int(granted[i].Load()), denied: int(denied[i].Load()), life: life})
	}
}

// TestGrantsAreThoseOfOneContinuousBucket plays random schedules on a real Redis: some buckets, one to four pods with clocks
// hours apart, requests together and one by one, pauses, and losses of all data. Redis' clock is read before and
// after, so the speed of the machine does not matter.
func TestGrantsAreThoseOfOneContinuousBucket(t *testing.T) {
	rdb, prefix := shared(t)
	var pods []*ratelimit.Limiter
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Minute} {
		pods = append(pods, newLimiter(t, ratelimit.Config{
			Prefix: prefix, CallTimeout: patience, Now: func() time.Time { return time.Now().Add(ahead) },
		}, open(t, testkit.RedisURL(t), patientOptions)))
	}
	clock := redisClock{rdb}
	var next, together, grants, denials, lost int
	rapid.Check(t, func(rt *rapid.T) {
		histories := make([]*history, rapid.IntRange(1, 4).Draw(rt, "buckets"))
		for i := range histories {
			spec := rapid.SampledFrom(rateSpecs()).Draw(rt, "rate")
			histories[i] = &history{id: id(next), spec: spec, rate: rate(t, spec.requests, spec.period, spec.burst)}
			next++
		}
		used := pods[:rapid.IntRange(1, len(pods)).Draw(rt, "pods")]
		life := 0
		for range rapid.IntRange(1, 12).Draw(rt, "bursts") {
			at := rapid.IntRange(0, len(histories)-1).Draw(rt, "bucket")
			n := rapid.SampledFrom([]int{1, 1, 2, 5, 12, 30}).Draw(rt, "requests")
			chosen := histories[at : at+1]
			if rapid.Bool().Draw(rt, "all buckets") {
				chosen = histories
			}
			if n > 1 && rapid.Bool().Draw(rt, "one by one") {
				for i := range n {
					send(t, clock, life, used[i%len(used):][:1], 1, chosen...)
				}
			} else {
				send(t, clock, life, used, n, chosen...)
				together++
			}
			clock.pass(t, time.Duration(rapid.SampledFrom([]int{0, 0, 100, 2000, 15_000}).Draw(rt, "pause"))*time.Microsecond)
			if rapid.IntRange(0, 9).Draw(rt, "loss") == 0 {
				rdb.Del(t.Context(), prefix+"buckets")
				life++
				lost++
			}
		}
		for _, h := range histories {
			if err := h.check(); err != nil {
				rt.Fatal(err)
			}
			for _, b := range h.bursts {
				grants, denials = grants+b.granted, denials+b.denied
			}
		}
	})
	t.Logf("%d bursts together, %d granted, %d denied, %d losses", together, grants, denials, lost)
	if together == 0 || grants == 0 || denials == 0 || lost == 0 {
		t.Error("the schedules do not cover what they should")
	}
}
