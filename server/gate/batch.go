package gate

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"time"

	"examprep.dev/server/keys"
)

// mostYields bounds how often the leader of a batch lets others go first. Each time it costs less than a system call
// saves, and it ends at the first in vain.
const mostYields = 4

// batcher gathers requests into batches and runs a few of them at a time. Requests for the same subject that wait
// together are one ask. There is no goroutine of its own: a request that finds a free place leads its batch; one that
// does not waits in the next batch, and when a place becomes free, one of those who wait is woken to lead it. So each
// request is woken once, batches grow exactly while the store is busy, and nothing needs to be stopped.
//
// A leader first lets every goroutine run that is ready to, and takes along those of them that ask. Network pollers wake
// goroutines by the dozen, and answers to one batch come back as one: without that the first of each such group would go
// alone. No clock is involved, so where nobody else is ready nothing is waited for.
type batcher struct {
	size    int           // asks in a batch
	queue   int           // requests waiting or under way
	timeout time.Duration // a batch that waited longer is not worth running
	now     func() time.Time
	yield   func() // lets every goroutine run that is ready to
	run     func([]*ask)

	mu      sync.Mutex
	free    int      // batches that may still start
	waiting int      // requests inside
	open    []*batch // in order; the last takes new asks. The first ones may have leaders already
	opened  uint64   // batches ever opened

	waiters sync.Pool
	batches sync.Pool
}

type batch struct {
	number uint64 // unique, also when the batch is used again
	opened time.Time
	led    bool     // somebody is about to run it
	joined int      // requests that ever came in
	marks  []uint64 // of the asks' subjects, in the same order
	asks   []*ask
	spare  []*ask
}

// ask is one subject in one batch, and what came of it.
type ask struct {
	subject subject
	n       int // how many requests ask
	held    int // tokens granted by an answer that does not count (runRedis)
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
	b := &batcher{size: size, queue: queue, timeout: timeout, now: now, yield: runtime.Gosched, run: run, free: inFlight}
	b.waiters.New = func() any { return &waiter{wake: make(chan struct{}, 1)} }
	b.batches.New = func() any { return &batch{marks: make([]uint64, 0, size)} }
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
	if !b.wait(ctx, w, lead) {
		*result = outcome{err: ctx.Err()}
		return
	}
	*result = w.outcome
	w.ask, w.outcome.record = nil, nil
	b.waiters.Put(w)
}

// wait waits for the outcome, leading batches meanwhile, and reports whether it is there: not if ctx ended before.
func (b *batcher) wait(ctx context.Context, w *waiter, lead *batch) bool {
	if lead != nil {
		b.lead(lead)
	}
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			if b.abandon(w) {
				return false
			}
			<-w.wake
		}
		if w.lead == nil {
			return true
		}
		lead, w.lead = w.lead, nil
		b.lead(lead)
	}
}

// load tells how many requests are inside, and how many batches may still start.
func (b *batcher) load() (waiting, free int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting, b.free
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
	a := current.ask(s)
	a.n++
	current.joined++
	w.next, w.batch, w.ask, w.gone = nil, current.number, a, false
	if a.last == nil {
		a.first = w
	} else {
		a.last.next = w
	}
	a.last = w
	if b.free == 0 || current.led {
		return w, nil, nil
	}
	b.free--
	current.led = true
	return w, current, nil
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

// ask finds or adds the ask of a subject. Batches are so small that looking at all marks is faster than a
// map, which would have to be emptied each time.
func (c *batch) ask(s *subject) *ask {
	mark := s.mark()
	for i, other := range c.marks {
		if other == mark && c.asks[i].subject == *s {
			return c.asks[i]
		}
	}
	var a *ask
	if n := len(c.spare); n > 0 {
		a, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		a = &ask{}
	}
	*a = ask{subject: *s}
	c.marks = append(c.marks, mark)
	c.asks = append(c.asks, a)
	return a
}

// mark is eight bytes that hardly two subjects share.
func (s *subject) mark() uint64 {
	return binary.NativeEndian.Uint64(s.id[:8]) ^ binary.NativeEndian.Uint64(s.id[8:16])
}

// gather lets others join a batch, until none does or it is full (who comes then opens another), and closes it.
func (b *batcher) gather(led *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range mostYields {
		if len(led.asks) >= b.size {
			break
		}
		before := led.joined
		b.mu.Unlock()
		b.yield()
		b.mu.Lock()
		if led.joined == before {
			break
		}
	}
	b.close(led)
}

// close removes an open batch: nobody joins it any more.
func (b *batcher) close(c *batch) {
	at := slices.Index(b.open, c)
	b.open = slices.Delete(b.open, at, at+1)
	c.led, c.joined = false, 0
}

// lead runs a batch, passes its place on, and hands out what came of it.
func (b *batcher) lead(taken *batch) {
	b.gather(taken)
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
	taken.spare = append(taken.spare, taken.asks...)
	clear(taken.asks)
	taken.asks, taken.marks = taken.asks[:0], taken.marks[:0]
	b.batches.Put(taken)
}

// passOn gives the caller's place to a request of the next batch, or back.
func (b *batcher) passOn() {
	for at := 0; at < len(b.open); {
		next := b.open[at]
		if next.led {
			at++
			continue
		}
		if w := next.anybody(); w != nil {
			next.led = true
			w.lead = next
			w.wake <- struct{}{}
			return
		}
		b.close(next) // everybody left: nobody is there to run it, and nobody needs it
	}
	b.free++
}

// anybody returns a request that still waits for the batch, nil if none does.
func (c *batch) anybody() *waiter {
	for _, a := range c.asks {
		for w := a.first; w != nil; w = w.next {
			if !w.gone {
				return w
			}
		}
	}
	return nil
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
			w.wake <- struct{}{} // nothing of w may be touched after it
		}
		w = next
	}
	a.first, a.last = nil, nil
}
