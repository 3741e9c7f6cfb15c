package gate_test

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

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
)

// burst is some requests of one key that were sent together, and their outcomes. Redis decided about each of them between
// from and to, by its own clock (µs), or the pod's memory did.
type burst struct {
	from, to        int64
	granted, denied int
}

// history is all that ever happened to one key, in order: bursts of one key do not overlap.
type history struct {
	key    keys.CreatedKey
	tier   keys.TierSpec
	bursts []burst
}

// gained returns the tokens that a bucket of the key's tier gains from one moment to another.
func (h *history) gained(from, to int64) float64 {
	return float64(max(to-from, 0)) * float64(h.tier.Requests) / float64(h.tier.Period.Microseconds())
}

// remembered is longer than a pod answers from memory about an empty bucket.
const remembered = 600 * time.Millisecond

// check compares a history with the continuous bucket, which is full when it begins.
//
// Too many: all grants of bursts i to j were made between from(i) and to(j). So they are at most burst + rate × T.
//
// Too few: a denial is right if the bucket held less than one token. At a moment a continuous bucket holds the least, over
// all earlier moments s, of burst + rate × (time since s) − grants since s. With the latest s just before the grants of
// each burst i, and the earliest moment of the denial, that is the least it can have held. A pod can forget an empty bucket
// later than Redis fills it: by the time that the answer took to arrive. late is what the bucket gains in that time.
func (h *history) check() error {
	size := float64(h.tier.Burst)
	for j, last := range h.bursts {
		grants, least, late := 0, size, 0.0
		for i := j; i >= 0; i-- {
			c := h.bursts[i]
			grants += c.granted
			if most := math.Floor(size + h.gained(c.from, last.to)); float64(grants) > most {
				return fmt.Errorf("bursts %d to %d of %+v: %d granted, want at most %v", i, j, h, grants, most)
			}
			least = min(least, size+h.gained(c.to, last.from)-float64(grants))
			if last.from-c.to <= remembered.Microseconds() {
				late = max(late, h.gained(c.from, c.to))
			}
		}
		if last.denied > 0 && least >= 1+late {
			return fmt.Errorf("burst %d of %+v: %d denied though the bucket held at least %v", j, h, last.denied, least)
		}
	}
	return nil
}

// clock is Redis' own.
type clock struct{ rdb redis.Cmdable }

func (c clock) now(t testing.TB) int64 {
	t.Helper()
	now, err := c.rdb.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMicro()
}

// pass returns when d has passed.
func (c clock) pass(t testing.TB, d time.Duration) {
	t.Helper()
	now := c.now(t)
	for end := now + d.Microseconds(); now < end; now = c.now(t) {
		runtime.Gosched()
	}
}

// send sends n requests of each history together, to the pods in turn, and records their outcomes.
func send(t testing.TB, c clock, pods []*gatetest.Pod, n int, histories ...*history) {
	t.Helper()
	granted, denied := make([]atomic.Int64, len(histories)), make([]atomic.Int64, len(histories))
	var group sync.WaitGroup
	from := c.now(t)
	for i, s := range histories {
		header := bearer(s.key.Key)
		for r := range n {
			group.Go(func() {
				switch d := pods[r%len(pods)].Check(context.Background(), header, client); d.Outcome {
				case gate.Allowed:
					granted[i].Add(1)
				case gate.Limited:
					denied[i].Add(1)
				default:
					t.Errorf("got %+v for a valid key", d)
				}
			})
		}
	}
	group.Wait()
	to := c.now(t)
	for i, s := range histories {
		s.bursts = append(s.bursts, burst{from: from, to: to, granted: int(granted[i].Load()), denied: int(denied[i].Load())})
	}
}

// someTiers are slow and quick, deep and shallow, odd and even.
func someTiers() []keys.TierSpec {
	return []keys.TierSpec{
		{Name: "trickle", Requests: 5, Period: time.Second, Burst: 3},
		{Name: "one", Requests: 40, Period: time.Second, Burst: 1},
		{Name: "odd", Requests: 97, Period: 1013 * time.Millisecond, Burst: 7},
		{Name: "even", Requests: 120, Period: time.Second, Burst: 120},
		{Name: "shallow", Requests: 500, Period: time.Second, Burst: 2},
		{Name: "quick", Requests: 1, Period: time.Millisecond, Burst: 20},
		{Name: "closed", Requests: 1, Period: time.Hour, Burst: 11},
	}
}

// TestGrantsAreThoseOfAContinuousBucketHoweverTheyAreAsked plays random schedules on real pods and a real Redis: some
// keys, one to four pods whose clocks are hours apart, requests together and one by one, and pauses. Redis' clock is read
// before and after, so the speed of the machine does not matter. Package ratelimit has the same test without the denials
// from memory.
func TestGrantsAreThoseOfAContinuousBucketHoweverTheyAreAsked(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	var pods []*gatetest.Pod
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Minute} {
		now := func() time.Time { return time.Now().Add(ahead) }
		pods = append(pods, e.newPodWith(t, gatetest.Config{Gate: gate.Config{Now: now}, Limits: ratelimit.Config{Now: now}}))
	}
	redisClock := clock{e.rdb}
	tiers := someTiers()
	for _, tier := range tiers {
		e.tier(t, tier)
	}
	var together, grants, denials int
	rapid.Check(t, func(rt *rapid.T) {
		histories := make([]*history, rapid.IntRange(1, 4).Draw(rt, "keys"))
		for i := range histories {
			tier := rapid.SampledFrom(tiers).Draw(rt, "tier")
			histories[i] = &history{key: e.create(t, tier.Name), tier: tier}
		}
		used := pods[:rapid.IntRange(1, len(pods)).Draw(rt, "pods")]
		for range rapid.IntRange(1, 12).Draw(rt, "bursts") {
			at := rapid.IntRange(0, len(histories)-1).Draw(rt, "key")
			n := rapid.SampledFrom([]int{1, 1, 2, 5, 12, 30}).Draw(rt, "requests")
			chosen := histories[at : at+1]
			if rapid.Bool().Draw(rt, "all keys") {
				chosen = histories
			}
			if n > 1 && rapid.Bool().Draw(rt, "one by one") {
				for i := range n {
					send(t, redisClock, used[i%len(used):][:1], 1, chosen...)
				}
			} else {
				send(t, redisClock, used, n, chosen...)
				together++
			}
			redisClock.pass(t, time.Duration(rapid.SampledFrom([]int{0, 0, 100, 2000, 15_000}).Draw(rt, "pause"))*time.Microsecond)
		}
		for _, s := range histories {
			if err := s.check(); err != nil {
				rt.Fatal(err)
			}
			for _, c := range s.bursts {
				grants, denials = grants+c.granted, denials+c.denied
			}
		}
	})
	t.Logf("%d bursts together, %d granted, %d denied", together, grants, denials)
	if together == 0 || grants == 0 || denials == 0 {
		t.Error("the schedules do not cover what they should")
	}
}
