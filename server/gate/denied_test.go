package gate

import (
	"encoding/binary"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit/check"
)

func rateOf(t testing.TB, tier keys.Tier) ratelimit.Rate {
	t.Helper()
	r, err := ratelimit.NewRate(tier.Requests, tier.Period, tier.Burst)
	check.NoError(t, err)
	return r
}

// deniedTest is a cache of empty buckets, with a clock that the test moves.
type deniedTest struct {
	*deniedCache

	time time.Time
}

func newDeniedTest(t testing.TB) *deniedTest {
	t.Helper()
	d := &deniedTest{time: time.Unix(1_000_000, 0)}
	cache, err := newDeniedCache(func() time.Time { return d.time })
	check.NoError(t, err)
	d.deniedCache = cache
	return d
}

func bucket(n int) (id ratelimit.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// moment is an event of one bucket, and its time after the first one.
type moment struct {
	at   time.Duration
	do   func(d *deniedTest) (denied bool)
	want bool
}

// TestEmptyBucketIsDeniedFromMemoryUntilItsNextToken: at most half a second, and for the rate that it was read with. Then one
// request asks at a time, and all from the time of a second token on.
func TestEmptyBucketIsDeniedFromMemoryUntilItsNextToken(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	slow := keys.Tier{Requests: 20, Period: time.Hour, Burst: 20}       // a token in 3 minutes
	fast := keys.Tier{Requests: 100, Period: time.Second, Burst: 1}     // in 10 ms
	second := keys.Tier{Requests: 1, Period: time.Second, Burst: 1}     // in 1 s
	due := keys.Tier{Requests: 100, Period: 49 * time.Second, Burst: 1} // in 490 ms, just before half a second is over
	asks := func(at time.Duration, tier keys.Tier, denied bool) moment {
		return moment{at, func(d *deniedTest) bool {
			_, ok := d.find(bucket(1), rateOf(t, tier))
			return ok
		}, denied}
	}
	learns := func(at time.Duration, tier keys.Tier, result ratelimit.Result) moment {
		return moment{at, func(d *deniedTest) bool {
			d.note(bucket(1), rateOf(t, tier), result)
			return false
		}, false}
	}
	empty := func(at time.Duration, tier keys.Tier) moment {
		next := tier.Period / time.Duration(tier.Requests)
		return learns(at, tier, ratelimit.Result{NextToken: next, Full: time.Duration(tier.Burst) * next})
	}
	last := ratelimit.Result{Allowed: true, NextToken: 3 * time.Minute, Full: time.Hour}
	for name, moments := range map[string][]moment{
		"until half a second is over":         {empty(0, slow), asks(499*ms, slow, true), asks(500*ms, slow, false), asks(500*ms, slow, true)},
		"until a token is due":                {empty(0, due), asks(489*ms, due, true), asks(490*ms, due, false), asks(491*ms, due, true)},
		"a token is due soon":                 {empty(0, fast), asks(9*ms, fast, true), asks(10*ms, fast, false)},
		"the request that asks has no answer": {empty(0, slow), asks(510*ms, slow, false), asks(534*ms, slow, true), asks(535*ms, slow, false), asks(536*ms, slow, true)},
		"a second token is due":               {empty(0, fast), asks(10*ms, fast, false), asks(19*ms, fast, true), asks(20*ms, fast, false), asks(20*ms, fast, false)},
		"half a second more":                  {empty(0, slow), asks(500*ms, slow, false), asks(1000*ms, slow, false), asks(1000*ms, slow, false)},
		"a minute later":                      {empty(0, slow), asks(time.Minute, slow, false)},
		"the bucket is still empty":           {empty(0, slow), asks(500*ms, slow, false), empty(503*ms, slow), asks(504*ms, slow, true), asks(1003*ms, slow, false)},
		"the tier has changed":                {empty(0, slow), asks(1*ms, second, false), asks(2*ms, slow, true)},
		"the tier has changed and is denied":  {empty(0, slow), empty(3*ms, second), asks(4*ms, second, true), asks(4*ms, slow, false), asks(503*ms, second, false)},
		"a grant took the last token":         {learns(0, slow, last), asks(0, slow, true), asks(499*ms, slow, true), asks(500*ms, slow, false)},
		"a grant left a token":                {learns(0, slow, ratelimit.Result{Allowed: true, Remaining: 1, Full: time.Minute}), asks(0, slow, false)},
		"the pod's own bucket decided":        {learns(0, slow, ratelimit.Result{Local: true, NextToken: time.Minute}), asks(0, slow, false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeniedTest(t)
			start := d.time
			for i, m := range moments {
				d.time = start.Add(m.at)
				check.Equal(t, m.do(d), m.want, "moment %d, after %v: denied", i, m.at)
			}
		})
	}
}

func TestDenialFromMemoryCountsTheTimeThatPassed(t *testing.T) {
	t.Parallel()
	d := newDeniedTest(t)
	r := rateOf(t, keys.Default())
	d.note(bucket(1), r, ratelimit.Result{NextToken: 400 * time.Millisecond, Full: time.Minute})
	d.time = d.time.Add(150 * time.Millisecond)
	got, ok := d.find(bucket(1), r)
	if want := (ratelimit.Result{NextToken: 250 * time.Millisecond, Full: time.Minute - 150*time.Millisecond}); !ok || got != want {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
	if _, ok := d.find(bucket(2), r); ok {
		t.Error("another bucket is denied")
	}
}

func TestNumberOfDeniedBucketsIsBounded(t *testing.T) {
	t.Parallel()
	d := newDeniedTest(t)
	r := rateOf(t, keys.Default())
	for n := range 3 * maxDenied {
		d.note(bucket(n), r, ratelimit.Result{NextToken: time.Minute, Full: time.Hour})
	}
	d.entries.CleanUp()
	if n := d.entries.EstimatedSize(); n > maxDenied || n < maxDenied/2 {
		t.Errorf("%d buckets are remembered, want at most %d", n, maxDenied)
	}
}

// BenchmarkFind measures what the cache costs a request whose bucket is not empty.
func BenchmarkFind(b *testing.B) {
	for name, remembered := range map[string]int{"none": 0, "others": 200} {
		b.Run(name, func(b *testing.B) {
			d := newDeniedTest(b)
			r := rateOf(b, keys.Default())
			for n := range remembered {
				d.note(bucket(n+2), r, ratelimit.Result{NextToken: time.Hour})
			}
			for b.Loop() {
				d.find(bucket(1), r)
			}
		})
	}
}
