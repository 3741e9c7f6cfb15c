package gate

import (
	"context"
	"sync"
	"time"

	"examprep.dev/server/keys"
)

// batcher gathers requests into batches and runs a few of them at a time. Requests for the same subject that wait
// together are one ask. There is no goroutine of its own: a request that finds a free place runs its batch at once; one
// that does not waits in the next batch, and when a place becomes free, one of those who wait is woken to run it. So
// each request is woken once, batches grow exactly while the store is busy, and nothing needs to be stopped.
type batcher struct {
	size    int           // asks in a batch
	queue   int           // requests waiting or under way
	timeout time.Duration // a batch that waited longer is not worth running
	now     func() time.Time
	run     func([]*ask)

	mu      sync.Mutex
	free    int      // batches that may still start
	waiting int      // requests inside
	open    []*batch // in order; the last takes new asks
	opened  uint64   // batches ever opened

	waiters sync.Pool
	batches sync.Pool
}

type batch struct {
	number uint64 // unique, also when the batch is used again
	opened time.Time
	index  map[subject]*ask
	asks   []*ask
	spare  []*ask
}

// ask is one subject in one batch, and what came of it.
type ask struct {
	subject subject
	n       int // how many requests ask
	first   *waiter
	last    *waiter

	outcome outcome
}

// outcome is what came of an ask, or of one request's part in it.
type outcome struct {
	verdict verdict
	record  *keys.Record // from PostgreSQL; nil if there is none
	err     error
	allowed bool // this request has one of the tokens granted
}

type waiter struct {
	wake  chan struct{} // holds one: either `lead` or the outcome is there
	next  *waiter
	batch uint64 // number of the batch
	ask   *ask
	gone  bool
	lead  *batch

	outcome outcome
}

func newBatcher(inFlight, size, queue int, timeout time.Duration, now func() time.Time, run func([]*ask)) *batcher {
	b := &batcher{size: size, queue: queue, timeout: timeout, now: now, run: run, free: inFlight}
	b.waiters.New = func() any { return &waiter{wake: make(chan struct{}, 1)} }
	b.batches.New = func() any { return &batch{index: make(map[subject]*ask, size)} }
	return b
}

// do asks for one token of s. The verdict's level is that after this request. The error is errOverloaded at once if too
// many wait, and the context's as soon as that ends; a token may have been taken all the same.
func (b *batcher) do(ctx context.Context, s *subject, result *outcome) {
	w, lead, err := b.enter(s)
	if err != nil {
		*result = outcome{err: err}
		return
	}
	if lead != nil {
		b.lead(lead)
	}
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			if b.abandon(w) {
				*result = outcome{err: ctx.Err()}
				return
			}
			<-w.wake
		}
		if w.lead == nil {
			break
		}
		lead, w.lead = w.lead, nil
		b.lead(lead)
	}
	*result = w.outcome
	w.ask, w.outcome.record = nil, nil
	b.waiters.Put(w)
}

// enter puts a request into the open batch, and hands it that batch to run if there is a free place.
func (b *batcher) enter(s *subject) (*waiter, *batch, error) {
	w, _ := b.waiters.Get().(*waiter)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting >= b.queue {
		b.waiters.Put(w)
		return nil, nil, errOverloaded
	}
	b.waiting++
	current := b.current()
	a := current.index[*s]
	if a == nil {
		a = current.add(s)
	}
	a.n++
	w.next, w.batch, w.ask, w.gone = nil, current.number, a, false
	if a.last == nil {
		a.first = w
	} else {
		a.last.next = w
	}
	a.last = w
	if b.free == 0 {
		return w, nil, nil
	}
	b.free--
	return w, b.take(), nil
}

// current returns the batch that takes new asks.
func (b *batcher) current() *batch {
	if n := len(b.open); n > 0 && len(b.open[n-1].asks) < b.size {
		return b.open[n-1]
	}
	fresh, _ := b.batches.Get().(*batch)
	b.opened++
	fresh.number, fresh.opened = b.opened, b.now()
	b.open = append(b.open, fresh)
	return fresh
}

func (c *batch) add(s *subject) *ask {
	var a *ask
	if n := len(c.spare); n > 0 {
		a, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		a = &ask{}
	}
	*a = ask{subject: *s}
	c.index[*s] = a
	c.asks = append(c.asks, a)
	return a
}

// take removes the first open batch: nobody joins it any more.
func (b *batcher) take() *batch {
	taken := b.open[0]
	b.open = append(b.open[:0], b.open[1:]...)
	return taken
}

// lead runs a batch, passes its place on, and hands out what came of it.
func (b *batcher) lead(taken *batch) {
	asks := taken.asks
	if b.now().Sub(taken.opened) > b.timeout {
		for _, a := range asks {
			a.outcome.err = errOverloaded
		}
	} else {
		b.run(asks)
	}
	served := 0
	for _, a := range asks {
		served += a.n
	}
	b.mu.Lock()
	b.waiting -= served
	b.passOn()
	b.mu.Unlock()
	for _, a := range asks {
		a.distribute()
	}
	clear(taken.index)
	taken.spare = append(taken.spare, taken.asks...)
	clear(taken.asks)
	taken.asks = taken.asks[:0]
	b.batches.Put(taken)
}

// passOn gives the caller's place to a request of the next batch, or back.
func (b *batcher) passOn() {
	for len(b.open) > 0 {
		next := b.take()
		for _, a := range next.asks {
			for w := a.first; w != nil; w = w.next {
				if !w.gone {
					w.lead = next
					w.wake <- struct{}{}
					return
				}
			}
		}
		// Everybody left: nobody is there to run it, and nobody needs it.
	}
	b.free++
}

// abandon takes w out and says so; it cannot when w has just been woken to run a batch for others.
func (b *batcher) abandon(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.lead != nil {
		return false
	}
	for _, open := range b.open {
		if open.number == w.batch { // not taken yet: do not charge for it
			w.gone = true
			w.ask.n--
			b.waiting--
		}
	}
	return true
}

// distribute gives the first `granted` requests a token each, in the order in which they came.
func (a *ask) distribute() {
	left := a.outcome.verdict.granted
	for w := a.first; w != nil; {
		next := w.next
		if !w.gone {
			w.outcome = a.outcome
			w.outcome.allowed = left > 0
			if left > 0 {
				left--
				w.outcome.verdict.level += float64(left) * a.outcome.verdict.rate.period
			}
			w.wake <- struct{}{}
		}
		w = next
	}
	a.first, a.last = nil, nil
}
