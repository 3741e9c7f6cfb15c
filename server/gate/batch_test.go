package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"examprep.dev/server/testkit/check"
)

// valve is a store that answers when it is told to.
type valve struct {
	calls   chan []*ask
	proceed chan struct{}
}

func newValve() *valve { return &valve{calls: make(chan []*ask), proceed: make(chan struct{})} }

func (v *valve) run(asks []*ask) {
	v.calls <- asks
	<-v.proceed
	for _, a := range asks {
		a.outcome.verdict = verdict{status: statusActive, granted: min(a.n, 2), rate: rate{period: 1}}
	}
}

func numbered(n byte) *subject {
	s := &subject{}
	s.id[0] = n
	return s
}

func TestRequestsForOneKeyThatWaitTogetherAreOneAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve()
		b := newBatcher(1, 16, 100, time.Minute, time.Now, v.run)
		outcomes := make([]outcome, 6)
		var group sync.WaitGroup
		ask := func(i int, s *subject) { group.Go(func() { b.do(t.Context(), s, &outcomes[i]) }) }
		ask(0, numbered(1))
		<-v.calls // the first goes at once, alone
		for i := 1; i < 5; i++ {
			ask(i, numbered(1))
		}
		ask(5, numbered(2))
		synctest.Wait()
		v.proceed <- struct{}{}
		asks := <-v.calls
		if len(asks) != 2 || asks[0].n+asks[1].n != 5 {
			t.Errorf("got %d asks", len(asks))
		}
		v.proceed <- struct{}{}
		group.Wait()
		allowed := 0
		for _, o := range outcomes {
			if o.err != nil {
				t.Error(o.err)
			}
			if o.allowed {
				allowed++
			}
		}
		if allowed != 4 { // one of the first batch; two of the four; one for the other key
			t.Errorf("%d allowed", allowed)
		}
		nothingLeft(t, b, 1)
	})
}

// TestWhoComesBeforeABatchIsRunGoesAlong has requests come between the moment at which a batch finds its leader and that
// at which the leader runs it.
func TestWhoComesBeforeABatchIsRunGoesAlong(t *testing.T) {
	var calls [][]int
	b := newBatcher(2, 3, 100, time.Minute, time.Now, func(asks []*ask) {
		var call []int
		for _, a := range asks {
			call = append(call, a.n)
			a.outcome.verdict = verdict{status: statusActive, granted: a.n, rate: rate{period: 1}}
		}
		calls = append(calls, call)
	})
	var waiters []*waiter
	var led []*batch
	for _, key := range []byte{1, 2, 1, 3, 4, 3} { // four keys, where a batch takes three
		w, lead, err := b.enter(numbered(key))
		check.NoError(t, err)
		waiters = append(waiters, w)
		if lead != nil {
			led = append(led, lead)
		}
	}
	if len(led) != 2 {
		t.Fatalf("%d batches were led, want one and what it had no room for", len(led))
	}
	for _, batch := range led {
		b.lead(batch)
	}
	if want := [][]int{{2, 1, 1}, {1, 1}}; !slices.EqualFunc(calls, want, slices.Equal[[]int]) {
		t.Errorf("calls for %v, want %v", calls, want)
	}
	for i, w := range waiters {
		if <-w.wake; w.lead != nil || !w.outcome.allowed {
			t.Errorf("request %d: got %+v", i, w.outcome)
		}
	}
	nothingLeft(t, b, 2)
}

// TestALeaderLetsOthersJoinWhileAnyDoAndThereIsRoom has a number of other keys come whenever the leader yields.
func TestALeaderLetsOthersJoinWhileAnyDoAndThereIsRoom(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		come   []int // at the leader's first yield, its second, ...
		yields int
		asks   int
	}{
		"nobody is ready":        {size: 16, yields: 1, asks: 1},
		"a few are":              {size: 16, come: []int{3}, yields: 2, asks: 4},
		"more become ready":      {size: 16, come: []int{3, 2}, yields: 3, asks: 6},
		"there is no end to it":  {size: 16, come: []int{1, 1, 1, 1, 1, 1, 1}, yields: mostYields, asks: 1 + mostYields},
		"they fill it":           {size: 4, come: []int{3, 2}, yields: 1, asks: 4},
		"they more than fill it": {size: 4, come: []int{5, 2}, yields: 1, asks: 4},
		"there is only one":      {size: 1, come: []int{3}, yields: 0, asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked, yields, key := 0, 0, byte(0)
			b := newBatcher(1, c.size, 100, time.Minute, time.Now, func(asks []*ask) { asked = len(asks) })
			enter := func() *batch {
				key++
				_, lead, err := b.enter(numbered(key))
				check.NoError(t, err)
				return lead
			}
			b.yield = func() {
				if yields < len(c.come) {
					for range c.come[yields] {
						enter()
					}
				}
				yields++
			}
			b.lead(enter())
			if yields != c.yields || asked != c.asks {
				t.Errorf("%d yields, %d asks; want %d and %d", yields, asked, c.yields, c.asks)
			}
		})
	}
}

// TestSubjectsThatLookAlikeAreAskedApart: a batch tells subjects apart by more than their marks.
func TestSubjectsThatLookAlikeAreAskedApart(t *testing.T) {
	one, other := numbered(7), &subject{}
	other.id[8] = 7
	address := *one
	address.address = true
	if one.mark() != other.mark() || one.mark() != address.mark() {
		t.Fatal("they do not look alike")
	}
	var c batch
	asks := map[*ask]bool{c.ask(one): true, c.ask(other): true, c.ask(&address): true}
	if len(asks) != 3 || c.ask(one) != c.asks[0] || c.ask(other) != c.asks[1] || c.ask(&address) != c.asks[2] {
		t.Errorf("got %d asks", len(asks))
	}
}

func TestAFullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve()
		b := newBatcher(1, 4, 3, time.Minute, time.Now, v.run)
		var group sync.WaitGroup
		ask := func(n byte) { group.Go(func() { b.do(t.Context(), numbered(n), &outcome{}) }) }
		ask(0)
		<-v.calls
		ask(1)
		ask(2)
		synctest.Wait()
		var o outcome
		if b.do(t.Context(), numbered(9), &o); !errors.Is(o.err, errOverloaded) {
			t.Errorf("got %v", o.err)
		}
		v.proceed <- struct{}{}
		<-v.calls
		v.proceed <- struct{}{}
		group.Wait()
	})
}

func TestARequestThatLeavesIsNotChargedAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve()
		b := newBatcher(1, 4, 10, time.Minute, time.Now, v.run)
		var group sync.WaitGroup
		group.Go(func() { b.do(t.Context(), numbered(1), &outcome{}) })
		<-v.calls
		ctx, cancel := context.WithCancel(t.Context())
		var left outcome
		group.Go(func() { b.do(ctx, numbered(2), &left) })
		synctest.Wait()
		group.Go(func() { b.do(t.Context(), numbered(2), &outcome{}) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(left.err, context.Canceled) {
			t.Errorf("got %v", left.err)
		}
		v.proceed <- struct{}{}
		if asks := <-v.calls; len(asks) != 1 || asks[0].n != 1 {
			t.Errorf("got %d asks, the first for %d", len(asks), asks[0].n)
		}
		v.proceed <- struct{}{}
		group.Wait()
	})
}

func TestABatchThatEverybodyLeftIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve()
		b := newBatcher(1, 4, 10, time.Minute, time.Now, v.run)
		var group sync.WaitGroup
		group.Go(func() { b.do(t.Context(), numbered(1), &outcome{}) })
		<-v.calls
		ctx, cancel := context.WithCancel(t.Context())
		group.Go(func() { b.do(ctx, numbered(2), &outcome{}) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		v.proceed <- struct{}{}
		group.Wait()
		nothingLeft(t, b, 1)
	})
}

func TestABatchThatWaitedTooLongIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve()
		b := newBatcher(1, 4, 10, time.Second, time.Now, v.run)
		var group sync.WaitGroup
		group.Go(func() { b.do(t.Context(), numbered(1), &outcome{}) })
		<-v.calls
		var late outcome
		group.Go(func() { b.do(t.Context(), numbered(2), &late) })
		synctest.Wait()
		timer := time.NewTimer(2 * time.Second)
		<-timer.C
		v.proceed <- struct{}{}
		group.Wait()
		if !errors.Is(late.err, errOverloaded) {
			t.Errorf("got %v", late.err)
		}
	})
}

// TestEveryRequestHasItsOutcome has a store run one batch of four asks at a time, while more requests come.
func TestEveryRequestHasItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 200
		b := newBatcher(1, 4, 2*requests, time.Minute, time.Now, func(asks []*ask) {
			if len(asks) > 4 {
				t.Errorf("%d asks in a batch of 4", len(asks))
			}
			<-time.After(time.Millisecond) // the others come meanwhile; the clock is the bubble's
			for _, a := range asks {
				a.outcome.verdict = verdict{status: statusActive, granted: a.n, rate: rate{period: 1}}
			}
		})
		outcomes := make([]outcome, requests)
		var group sync.WaitGroup
		for i := range requests {
			group.Go(func() { b.do(t.Context(), numbered(byte(i%50)), &outcomes[i]) })
		}
		group.Wait()
		for i := range outcomes {
			if !outcomes[i].allowed || outcomes[i].err != nil {
				t.Errorf("request %d: %+v", i, outcomes[i])
			}
		}
		synctest.Wait()
		nothingLeft(t, b, 1)
	})
}

// TestNothingIsLostUnderDisorder has many requests come and go at random: every one that stays gets its own answer, and
// nothing is left over.
func TestNothingIsLostUnderDisorder(t *testing.T) {
	var running, most atomic.Int64
	b := newBatcher(3, 8, 1000, time.Minute, time.Now, func(asks []*ask) {
		now := running.Add(1)
		for {
			if old := most.Load(); now <= old || most.CompareAndSwap(old, now) {
				break
			}
		}
		for _, a := range asks {
			a.outcome.verdict = verdict{status: statusActive, granted: a.n, rate: rate{period: 1}, level: float64(a.subject.id[0])}
		}
		running.Add(-1)
	})
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+worker)%7 == 0 {
					go cancel()
				}
				key := byte(i % 11)
				var o outcome
				b.do(ctx, numbered(key), &o)
				cancel()
				if o.err != nil && !errors.Is(o.err, context.Canceled) {
					t.Error(o.err)
				}
				if o.err == nil && (!o.allowed || o.verdict.level < float64(key)) {
					t.Errorf("key %d: got %+v", key, o)
				}
			}
		})
	}
	group.Wait()
	nothingLeft(t, b, 3)
	if most.Load() > 3 {
		t.Errorf("%d at once", most.Load())
	}
}

// nothingLeft says what a batcher still has that nobody asks any more: all its places are free then.
func nothingLeft(t *testing.T, b *batcher, free int) {
	t.Helper()
	if b.free != free || b.waiting != 0 || len(b.open) != 0 {
		t.Errorf("left over: free %d, waiting %d, open %d", b.free, b.waiting, len(b.open))
	}
}
