package batch

import (
	"runtime/debug"
	"slices"
)

// maxYields bounds how often a worker lets other goroutines run before it takes a batch. Goroutines that were woken
// together, by one read of the network or one batch, then share a batch. The first time in vain ends it.
const maxYields = 4

// classShare is the part of a batch that one class can fill while others wait: a quarter.
const classShare = 4

// worker runs one batch after the other.
type worker[Q, R any] struct {
	b      *Batcher[Q, R]
	slot   int
	calls  []*Call[Q, R]  // the batch
	counts map[uint64]int // its calls by class
}

// work runs batches until the batcher is closed and no call waits.
func (w *worker[Q, R]) work() {
	b := w.b
	b.mu.Lock()
	defer b.mu.Unlock()
	inVain := false
	for w.await(inVain) {
		w.gather()
		w.take()
		b.gathering = false
		inVain = len(w.calls) == 0
		if !inVain {
			w.runBatch()
		}
	}
}

// await waits until this worker must gather calls. It returns false when the batcher is closed and no call waits. After a
// take in vain all calls wait for a running batch: its worker takes them, or a worker that a new call wakes.
func (w *worker[Q, R]) await(inVain bool) bool {
	b := w.b
	for {
		if b.woken || (len(b.queue) > 0 && !b.gathering && !inVain) {
			b.woken, b.gathering = false, true
			return true
		}
		if b.closed && len(b.queue) == 0 {
			b.wake.Broadcast()
			return false
		}
		b.idle++
		b.wake.Wait()
		b.idle--
	}
}

// gather lets further calls join until none does or the batch is full.
func (w *worker[Q, R]) gather() {
	b := w.b
	for range maxYields {
		if len(b.queue) >= b.cfg.Size {
			return
		}
		before := b.joined
		b.mu.Unlock()
		b.yield()
		b.mu.Lock()
		if b.joined == before {
			return
		}
	}
}

// take moves calls from the queue to the batch, by the rules of the package comment.
func (w *worker[Q, R]) take() {
	size := w.b.cfg.Size
	if w.b.cfg.Class == nil {
		w.takeUpTo(size)
		return
	}
	clear(w.counts)
	w.takeUpTo(max(size/classShare, 1))
	if len(w.counts) == 1 {
		w.takeUpTo(size) // no other class waits
	}
}

// takeUpTo is take with at most share calls of a class.
func (w *worker[Q, R]) takeUpTo(share int) {
	b := w.b
	b.queue = slices.DeleteFunc(b.queue, func(c *Call[Q, R]) bool {
		if len(w.calls) >= b.cfg.Size || (b.cfg.Class != nil && w.counts[c.class] >= share) {
			return false
		}
		if b.cfg.Exclusive != nil {
			if slot, isHeld := b.held[c.exclusive]; isHeld && slot != w.slot {
				return false
			}
			b.held[c.exclusive] = w.slot
		}
		if b.cfg.Class != nil {
			w.counts[c.class]++
		}
		c.state = runs
		w.calls = append(w.calls, c)
		return true
	})
}

// runBatch runs the batch and gives each caller its result. It holds the lock before and afterwards.
func (w *worker[Q, R]) runBatch() {
	b := w.b
	b.running++
	if len(b.queue) > 0 {
		b.wakeOne()
	}
	b.mu.Unlock()
	w.call()
	b.mu.Lock()
	b.running--
	for i, c := range w.calls {
		delete(b.held, c.exclusive)
		if c.state == abandoned {
			b.release(c)
			w.calls[i] = nil
			continue
		}
		c.state = finished
	}
	b.mu.Unlock()
	for _, c := range w.calls {
		if c != nil {
			c.done <- struct{}{} // the caller owns c from here on
		}
	}
	clear(w.calls)
	w.calls = w.calls[:0]
	b.mu.Lock()
}

// call runs the batch function. Calls that it leaves without an answer get an error.
func (w *worker[Q, R]) call() {
	var missing error = &UnansweredError{}
	defer func() {
		if value := recover(); value != nil {
			missing = &PanicError{Value: value, Stack: debug.Stack()}
		}
		for _, c := range w.calls {
			if !c.answered {
				c.err = missing
			}
		}
	}()
	w.b.cfg.Run(w.slot, w.calls)
}
