// Package buckettest compares the requests that pods grant with a continuous token bucket.
package buckettest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"examprep.dev/server/testkit/check"
)

// Rate is the rate and the size of a bucket.
type Rate struct {
	Name     string
	Requests int
	Period   time.Duration
	Burst    int
}

// Rates returns slow and fast rates, with small and large bursts.
func Rates() []Rate {
	return []Rate{
		{"trickle", 5, time.Second, 3},
		{"one", 40, time.Second, 1},
		{"odd", 287, 3 * time.Second, 7},
		{"even", 120, time.Second, 120},
		{"shallow", 500, time.Second, 2},
		{"quick", 1000, time.Second, 20},
		{"closed", 1, time.Hour, 11},
	}
}

// burst is some requests for one bucket that were sent together, and their results. Redis decided about each of them
// between from and to, by its own clock (µs), or the pod's memory did.
type burst struct {
	from, to        int64
	granted, denied int
	life            int // of Redis' data
}

// History is all that ever happened to one bucket, in order: bursts of one bucket do not overlap.
type History struct {
	Rate Rate
	// Remembered is longer than a pod denies from memory; 0: it never does.
	Remembered time.Duration
	// Take asks a pod for a token.
	Take func(pod int) (granted bool, err error)

	bursts []burst
}

// gained returns the tokens that a continuous bucket gains from one moment to another.
func (h *History) gained(from, to int64) float64 {
	return float64(max(to-from, 0)) * float64(h.Rate.Requests) / float64(h.Rate.Period.Microseconds())
}

// Check compares a history with the continuous bucket, which is full when the history and each life of Redis' data begin.
//
// Too many: all grants of bursts i to j were made between from(i) and to(j). So they are at most burst × (1 + L) + rate × T,
// with L losses between i and j.
//
// Too few: a denial is right if the bucket held less than one token. At a moment a continuous bucket holds the least, over
// all earlier moments s of this life, of burst + rate × (time since s) − grants since s. With the latest s just before the
// grants of each burst i, and the earliest moment of the denial, that is the least it can have held. A pod can forget an
// empty bucket later than Redis fills it: by the time that the answer took to arrive. late is what it gains in that time.
func (h *History) Check() error {
	size := float64(h.Rate.Burst)
	for j, last := range h.bursts {
		grants, least, late := 0, size, 0.0
		for i := j; i >= 0; i-- {
			b := h.bursts[i]
			grants += b.granted
			losses := float64(last.life - b.life)
			if most := math.Floor(size*(1+losses) + h.gained(b.from, last.to)); float64(grants) > most {
				return fmt.Errorf("bursts %d to %d of %+v, %+v: %d granted, want at most %v", i, j, h.Rate, h.bursts, grants, most)
			}
			if b.life == last.life {
				least = min(least, size+h.gained(b.to, last.from)-float64(grants))
			}
			if h.Remembered > 0 && b.life == last.life && last.from-b.to <= h.Remembered.Microseconds() {
				late = max(late, h.gained(b.from, b.to))
			}
		}
		if last.denied > 0 && least >= 1+late {
			return fmt.Errorf("burst %d of %+v, %+v: %d denied though the bucket held at least %v", j, h.Rate, h.bursts, last.denied, least)
		}
	}
	return nil
}

// Clock is the clock of a Redis server.
type Clock struct{ Redis redis.Cmdable }

// Now returns the time in µs.
func (c Clock) Now(t testing.TB) int64 {
	t.Helper()
	now, err := c.Redis.Time(context.Background()).Result()
	check.NoError(t, err)
	return now.UnixMicro()
}

// Pass returns when d has passed.
func (c Clock) Pass(t testing.TB, d time.Duration) {
	t.Helper()
	now := c.Now(t)
	for end := now + d.Microseconds(); now < end; now = c.Now(t) {
		<-time.After(time.Duration(end-now) * time.Microsecond)
	}
}

// Send sends n requests for each bucket together, to pods from first on in turn, and records the results.
func (c Clock) Send(t testing.TB, life, first, pods, n int, histories ...*History) {
	t.Helper()
	granted, denied := make([]atomic.Int64, len(histories)), make([]atomic.Int64, len(histories))
	var group sync.WaitGroup
	from := c.Now(t)
	for i, h := range histories {
		for r := range n {
			group.Go(func() {
				switch ok, err := h.Take((first + r) % pods); {
				case err != nil:
					t.Error(err)
				case ok:
					granted[i].Add(1)
				default:
					denied[i].Add(1)
				}
			})
		}
	}
	group.Wait()
	to := c.Now(t)
	for i, h := range histories {
		h.bursts = append(h.bursts, burst{from: from, to: to, granted: int(granted[i].Load()), denied: int(denied[i].Load()), life: life})
	}
}

// World is a Redis and the pods that use it.
type World struct {
	Clock Clock
	Pods  int
	// New returns the history of a new bucket.
	New func(rate Rate) *History
	// Lose, if it is not nil, loses all data of Redis.
	Lose func()
}

// Play plays random schedules: some buckets, some pods, requests together and one by one, pauses, and losses of all data.
// Redis' clock is read before and after, so the speed of the machine does not matter.
func Play(t *testing.T, w World) {
	t.Helper()
	var together, grants, denials, lost int
	rapid.Check(t, func(rt *rapid.T) {
		histories := make([]*History, rapid.IntRange(1, 4).Draw(rt, "buckets"))
		for i := range histories {
			histories[i] = w.New(rapid.SampledFrom(Rates()).Draw(rt, "rate"))
		}
		pods, life := rapid.IntRange(1, w.Pods).Draw(rt, "pods"), 0
		for range rapid.IntRange(1, 12).Draw(rt, "bursts") {
			at := rapid.IntRange(0, len(histories)-1).Draw(rt, "bucket")
			n := rapid.SampledFrom([]int{1, 1, 2, 5, 12, 30}).Draw(rt, "requests")
			chosen := histories[at : at+1]
			if rapid.Bool().Draw(rt, "all buckets") {
				chosen = histories
			}
			if n > 1 && rapid.Bool().Draw(rt, "one by one") {
				for i := range n {
					w.Clock.Send(t, life, i, pods, 1, chosen...)
				}
			} else {
				w.Clock.Send(t, life, 0, pods, n, chosen...)
				together++
			}
			w.Clock.Pass(t, time.Duration(rapid.SampledFrom([]int{0, 0, 100, 2000, 15_000}).Draw(rt, "pause"))*time.Microsecond)
			if w.Lose != nil && rapid.IntRange(0, 9).Draw(rt, "loss") == 0 {
				w.Lose()
				life++
				lost++
			}
		}
		for _, h := range histories {
			check.NoError(rt, h.Check())
			for _, b := range h.bursts {
				grants, denials = grants+b.granted, denials+b.denied
			}
		}
	})
	t.Logf("%d bursts together, %d granted, %d denied, %d losses", together, grants, denials, lost)
	if together == 0 || grants == 0 || denials == 0 || lost == 0 && w.Lose != nil {
		t.Error("the schedules do not cover what they should")
	}
}
