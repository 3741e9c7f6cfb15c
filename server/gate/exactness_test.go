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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
)

// crowd is some requests of one key that were sent together, and what came of them. Redis decided about each of them at
// some moment between from and to, by its own clock (µs).
type crowd struct {
	from, to        int64
	granted, denied int
	life            int // of Redis
}

// story is all that ever happened to one key, in order: crowds of one key do not overlap.
type story struct {
	key    keys.Issued
	tier   keys.TierSpec
	crowds []crowd
}

// between is what a bucket of the story's tier gains from one moment to another, in tokens.
func (s *story) between(from, to int64) float64 {
	return float64(max(to-from, 0)) * float64(s.tier.Requests) / float64(s.tier.Period.Microseconds())
}

// remembered is how long a pod goes by what it was told, and a little for the others to hear of it.
const remembered = 600 * time.Millisecond

// judge holds a story against the continuous bucket, which is full when it begins.
//
// Too many: the grants of crowds i to j all lie between from(i) and to(j), so they are no more than burst + rate × T.
//
// Too few: a denial is right if the bucket held less than one token. What a continuous bucket holds at a moment is the
// least, over all earlier moments s, of burst + rate × (time since s) less the grants since s. With the latest s just
// before the grants of each crowd i, and the earliest moment of the denial, that is the least it can have held. Where
// every denial is right, the bucket is greedy: a reference bucket that is asked the same grants no more. Late is how much
// later than Redis a pod may let go of a remembered denial: as long as the answer took to arrive, and what flows in
// meanwhile may be there. Of a bucket that gains less than a token in that time it is less than a token.
func (s *story) judge() error {
	burst := float64(s.tier.Burst)
	for j, last := range s.crowds {
		grants, least, late := 0, burst, 0.0
		for i := j; i >= 0; i-- {
			c := s.crowds[i]
			grants += c.granted
			if most := math.Floor(burst + s.between(c.from, last.to)); float64(grants) > most {
				return fmt.Errorf("crowds %d to %d of %+v: %d granted, at most %v may be", i, j, s, grants, most)
			}
			if c.life == last.life {
				least = min(least, burst+s.between(c.to, last.from)-float64(grants))
			}
			if last.from-c.to <= remembered.Microseconds() {
				late = max(late, s.between(c.from, c.to))
			}
		}
		if last.denied > 0 && least >= 1+late {
			return fmt.Errorf("crowd %d of %+v: %d denied though the bucket held %v at least", j, s, last.denied, least)
		}
	}
	return nil
}

// lives returns the story as one of each life of Redis.
func (s *story) lives() []*story {
	var all []*story
	for i, c := range s.crowds {
		if i == 0 || c.life != s.crowds[i-1].life {
			all = append(all, &story{key: s.key, tier: s.tier})
		}
		last := all[len(all)-1]
		last.crowds = append(last.crowds, c)
	}
	return all
}

// clock is Redis's.
type clock struct{ rdb redis.Cmdable }

func (c clock) now(t testing.TB) int64 {
	t.Helper()
	now, err := c.rdb.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMicro()
}

// pass returns when that much has passed.
func (c clock) pass(t testing.TB, d time.Duration) {
	t.Helper()
	now := c.now(t)
	for end := now + d.Microseconds(); now < end; now = c.now(t) {
		runtime.Gosched()
	}
}

// send sends crowds of n requests of each story together, through the pods in turn, and notes what came of them.
func send(t testing.TB, c clock, life int, pods []*gate.Gate, n int, stories ...*story) {
	t.Helper()
	granted, denied := make([]atomic.Int64, len(stories)), make([]atomic.Int64, len(stories))
	var group sync.WaitGroup
	from := c.now(t)
	for i, s := range stories {
		header := bearer(s.key.Key)
		for r := range n {
			group.Go(func() {
				switch d := pods[r%len(pods)].Check(context.Background(), header, client); d.Outcome {
				case gate.Allowed:
					granted[i].Add(1)
				case gate.Limited:
					denied[i].Add(1)
				default:
					t.Errorf("a good key is answered %+v", d)
				}
			})
		}
	}
	group.Wait()
	to := c.now(t)
	for i, s := range stories {
		s.crowds = append(s.crowds, crowd{from: from, to: to, granted: int(granted[i].Load()), denied: int(denied[i].Load()), life: life})
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

// wrongClocks are pods whose clocks are an hour apart from each other and from Redis, and their metrics. For all of them,
// as much time passes as is added to skipped.
func wrongClocks(h *house) (pods []*gate.Gate, registries []*prometheus.Registry, skipped *atomic.Int64) {
	skipped = &atomic.Int64{}
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Minute} {
		registry := prometheus.NewRegistry()
		registries = append(registries, registry)
		pods = append(pods, h.newGate(func(c *gate.Config) {
			c.Registerer, c.Now = registry, func() time.Time { return time.Now().Add(ahead + time.Duration(skipped.Load())) }
		}))
	}
	return pods, registries, skipped
}

// TestGrantsAreThoseOfAContinuousBucketHoweverTheyAreAsked plays random schedules on real pods and a real Redis: some
// keys, one to four pods whose clocks are hours apart, crowds that are coalesced and requests that come alone, and
// pauses. The clock is Redis's, read before and after, so nothing depends on how fast this machine is.
func TestGrantsAreThoseOfAContinuousBucketHoweverTheyAreAsked(t *testing.T) {
	h := newHouse(t, nil)
	pods, _, _ := wrongClocks(h)
	redisClock := clock{h.rdb}
	tiers := someTiers()
	for _, tier := range tiers {
		h.tier(t, tier)
	}
	var together, grants, denials int
	rapid.Check(t, func(rt *rapid.T) {
		stories := make([]*story, rapid.IntRange(1, 4).Draw(rt, "keys"))
		for i := range stories {
			tier := rapid.SampledFrom(tiers).Draw(rt, "tier")
			stories[i] = &story{key: h.create(t, tier.Name), tier: tier}
		}
		used := pods[:rapid.IntRange(1, len(pods)).Draw(rt, "pods")]
		for range rapid.IntRange(1, 12).Draw(rt, "crowds") {
			at := rapid.IntRange(0, len(stories)-1).Draw(rt, "key")
			n := rapid.SampledFrom([]int{1, 1, 2, 5, 12, 30}).Draw(rt, "requests")
			chosen := stories[at : at+1]
			if rapid.Bool().Draw(rt, "all keys") {
				chosen = stories
			}
			if n > 1 && rapid.Bool().Draw(rt, "one by one") {
				for i := range n {
					send(t, redisClock, 0, used[i%len(used):][:1], 1, chosen...)
				}
			} else {
				send(t, redisClock, 0, used, n, chosen...)
				together++
			}
			redisClock.pass(t, time.Duration(rapid.SampledFrom([]int{0, 0, 100, 2000, 15_000}).Draw(rt, "pause"))*time.Microsecond)
		}
		for _, s := range stories {
			if err := s.judge(); err != nil {
				rt.Fatal(err)
			}
			for _, c := range s.crowds {
				grants, denials = grants+c.granted, denials+c.denied
			}
		}
	})
	t.Logf("%d crowds together, %d granted, %d denied", together, grants, denials)
	if together == 0 || grants == 0 || denials == 0 {
		t.Error("the schedules did not cover what they should")
	}
}
