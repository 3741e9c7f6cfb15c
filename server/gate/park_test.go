package gate

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// parking is a request that is resumed by a channel, and counts what it was told.
type parking struct {
	context.Context
	woken chan struct{}
	wakes *atomic.Int64
}

func (p *parking) Value(key any) any {
	if key == (ParkerKey{}) {
		return p
	}
	return p.Context.Value(key)
}

func (p *parking) Park()  { <-p.woken }
func (p *parking) Leave() {}

func (p *parking) Wake() {
	p.wakes.Add(1)
	p.woken <- struct{}{}
}

// TestWhoMayNotBlockIsParked: every second request of many parks, and each has its outcome, whoever leads.
func TestWhoMayNotBlockIsParked(t *testing.T) {
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
		var wakes atomic.Int64
		outcomes := make([]outcome, requests)
		var group sync.WaitGroup
		for i := range requests {
			ctx := t.Context()
			if i%2 == 0 {
				ctx = &parking{ctx, make(chan struct{}, 1), &wakes}
			}
			group.Go(func() { b.do(ctx, numbered(byte(i%50)), &outcomes[i]) })
		}
		group.Wait()
		for i := range outcomes {
			if !outcomes[i].allowed || outcomes[i].err != nil {
				t.Errorf("request %d: %+v", i, outcomes[i])
			}
		}
		if got := wakes.Load(); got != requests/2 {
			t.Errorf("%d requests were woken, want %d", got, requests/2)
		}
		synctest.Wait()
		nothingLeft(t, b, 1)
	})
}

// TestAParkedRequestIsWokenWhenItIsRefused: too many wait, or its batch waited for too long.
func TestAParkedRequestIsWokenWhenItIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newValve()
		b := newBatcher(1, 16, 2, time.Second, time.Now, v.run)
		var wakes atomic.Int64
		var outcomes [3]outcome
		var group sync.WaitGroup
		ask := func(i int) {
			ctx := &parking{t.Context(), make(chan struct{}, 1), &wakes}
			group.Go(func() { b.do(ctx, numbered(byte(i)), &outcomes[i]) })
			synctest.Wait()
		}
		ask(0)
		<-v.calls
		ask(1)
		ask(2) // is one too many
		<-time.After(2 * time.Second)
		v.proceed <- struct{}{}
		group.Wait()
		if outcomes[0].err != nil || outcomes[1].err == nil || outcomes[2].err == nil || wakes.Load() != 2 {
			t.Errorf("got %v, %v, %v and %d wakes", outcomes[0].err, outcomes[1].err, outcomes[2].err, wakes.Load())
		}
	})
}
