package batch

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
)

const (
	// maxYields bounds how often a worker lets other goroutines run before it takes a batch. Goroutines that were woken
	// together, by one read of the network or one batch, then share a batch. The first time in vain ends it.
	maxYields = 4
	// classShare is the part of a batch that one class can fill while others wait: a quarter.
	classShare = 4
	// queueShare is the part of the queue that one class can fill: half.
	queueShare = 2
)

// Config describes a [Batcher]. Q is the type of a request, R that of a result.
type Config[Q, R any] struct {
	// Size, InFlight and Queue are the maximum numbers of calls in a batch, of batches that run at once, and of calls that
	// wait. Less than 1 means 1. With Class or Exclusive a worker reads the whole queue: a few thousand at most.
	Size, InFlight, Queue int
	// Run answers the calls of a batch, in bounded time. It must not keep them or the slice, nor end its goroutine. Batches
	// with the same slot (0 to InFlight-1) never run at once, so memory and connections can belong to a slot.
	Run func(slot int, calls []*Call[Q, R])
	// Class returns the fairness class of a request, such as a hash of the owner. nil: all calls are in one class.
	Class func(*Q) uint64
	// Exclusive returns a number that must not be in two running batches, such as a hash of the row to lock. nil: no such
	// rule. Two requests with equal numbers by chance only wait for each other.
	Exclusive func(*Q) uint64
}

// Call is one caller's request in a batch.
type Call[Q, R any] struct {
	// Request is what the caller asked.
	Request Q

	result           R
	err              error
	answered         bool
	class, exclusive uint64
	done             chan struct{} // has one element when the caller can read the result
}

// Answer sets the result of the call; the last answer counts. The caller gets it when the batch function has returned.
func (c *Call[Q, R]) Answer(result R, err error) { c.result, c.err, c.answered = result, err, true }

// Answered reports whether Answer was called.
func (c *Call[Q, R]) Answered() bool { return c.answered }

type (
	// AbandonedError reports that a caller's context ended before its call had a result. Cause is the error of the context.
	// Running reports whether the call was in a running batch: it may have had its effect. If false, it never runs.
	AbandonedError struct {
		Running bool
		Cause   error
	}
	// FullError reports that too many calls wait: Queue of them, in all or of the call's class. The call did not run.
	FullError struct{ Queue int }
	// ClosedError reports a call after [Batcher.Close]. The call did not run.
	ClosedError struct{}
	// UnansweredError reports that the batch function returned without an answer to the call.
	UnansweredError struct{}
	// PanicError reports that the batch function panicked before it answered the call, with the stack of its goroutine.
	PanicError struct {
		Value any
		Stack []byte
	}
)

func (e *AbandonedError) Error() string {
	if e.Running {
		return fmt.Sprintf("the batch did not end in time, its effect is unknown: %v", e.Cause)
	}
	return fmt.Sprintf("the call waited too long and did not run: %v", e.Cause)
}

func (e *AbandonedError) Unwrap() error { return e.Cause }

func (e *FullError) Error() string {
	return fmt.Sprintf("%d calls wait already: try again later", e.Queue)
}
func (*ClosedError) Error() string     { return "the batcher is closed" }
func (*UnansweredError) Error() string { return "the batch function did not answer the call" }
func (e *PanicError) Error() string    { return fmt.Sprintf("the batch function panicked: %v", e.Value) }

// Batcher groups calls. [New] makes one; it must be closed.
type Batcher[Q, R any] struct {
	cfg     Config[Q, R]
	calls   sync.Pool
	workers sync.WaitGroup

	mu     sync.Mutex
	wake   *sync.Cond // wakes a worker when calls wait, and all when the batcher has ended
	queue  []*Call[Q, R]
	closed bool
	// waking and gathering report that a worker was woken, or gathers, to take what waits. No second one must divide it.
	waking, gathering bool
	running           int            // batches
	held              map[uint64]int // the slot that runs each exclusive number
	counts            map[uint64]int // calls by class, of the batch that a worker takes
}

// New returns a batcher and starts its workers.
func New[Q, R any](cfg Config[Q, R]) *Batcher[Q, R] {
	cfg.Size, cfg.InFlight, cfg.Queue = max(cfg.Size, 1), max(cfg.InFlight, 1), max(cfg.Queue, 1)
	b := &Batcher[Q, R]{cfg: cfg, held: map[uint64]int{}, counts: map[uint64]int{}}
	b.wake = sync.NewCond(&b.mu)
	b.calls.New = func() any { return &Call[Q, R]{done: make(chan struct{}, 1)} }
	for slot := range cfg.InFlight {
		b.workers.Go(func() { b.work(slot) })
	}
	return b
}

// Do runs a request in a batch, and returns its result. The errors besides those of [Call.Answer] are in the package comment.
func (b *Batcher[Q, R]) Do(ctx context.Context, request Q) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, &AbandonedError{Cause: err}
	}
	c, _ := b.calls.Get().(*Call[Q, R])
	*c = Call[Q, R]{Request: request, done: c.done}
	if err := b.enter(c); err != nil {
		b.calls.Put(c)
		return result, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if b.withdraw(c) {
			b.calls.Put(c)
			return result, &AbandonedError{Cause: ctx.Err()}
		}
		select {
		case <-c.done: // since ctx ended
		default: // the batch still uses c
			return result, &AbandonedError{Running: true, Cause: ctx.Err()}
		}
	}
	defer b.calls.Put(c)
	return c.result, c.err
}

// Load returns the numbers of calls that wait and of batches that run.
func (b *Batcher[Q, R]) Load() (waiting, running int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue), b.running
}

// Close refuses new calls with a [*ClosedError], runs those that wait, and returns when the last has its result.
func (b *Batcher[Q, R]) Close() {
	b.mu.Lock()
	b.closed = true
	b.wake.Broadcast()
	b.mu.Unlock()
	b.workers.Wait()
}

// enter puts a call at the end of the queue, and wakes a worker if one is idle.
func (b *Batcher[Q, R]) enter(c *Call[Q, R]) error {
	if b.cfg.Class != nil {
		c.class = b.cfg.Class(&c.Request)
	}
	if b.cfg.Exclusive != nil {
		c.exclusive = b.cfg.Exclusive(&c.Request)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return &ClosedError{}
	case len(b.queue) >= b.cfg.Queue:
		return &FullError{Queue: b.cfg.Queue}
	case b.classFillsItsShare(c.class):
		return &FullError{Queue: b.classQueue()}
	}
	b.queue = append(b.queue, c)
	b.wakeOne()
	return nil
}

// classQueue returns the maximum number of calls of one class that wait.
func (b *Batcher[Q, R]) classQueue() int { return max(b.cfg.Queue/queueShare, 1) }

// classFillsItsShare reports whether no more calls of a class can wait. It counts only if so many calls wait that it can be true.
func (b *Batcher[Q, R]) classFillsItsShare(class uint64) bool {
	if b.cfg.Class == nil || len(b.queue) < b.classQueue() {
		return false
	}
	waiting := 0
	for _, c := range b.queue {
		if c.class == class {
			waiting++
		}
	}
	return waiting >= b.classQueue()
}

// wakeOne wakes an idle worker if calls wait. If none is idle, the worker whose batch ends first takes them.
func (b *Batcher[Q, R]) wakeOne() {
	if len(b.queue) > 0 && !b.waking && !b.gathering {
		b.waking = true
		b.wake.Signal()
	}
}

// withdraw takes a call out of the queue. It reports false if the call is in a batch.
func (b *Batcher[Q, R]) withdraw(c *Call[Q, R]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.queue, c)
	if at >= 0 {
		b.queue = slices.Delete(b.queue, at, at+1)
	}
	return at >= 0
}

// work is a worker: it runs batches until the batcher is closed and no call waits. A worker that takes no call sleeps: another
// one gathers, or all calls wait for the numbers of running batches. Their workers take calls next.
func (b *Batcher[Q, R]) work(slot int) {
	var calls []*Call[Q, R]
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		b.waking = false
		calls = b.take(slot, calls[:0])
		switch {
		case len(calls) > 0:
			b.run(slot, calls)
		case b.closed && len(b.queue) == 0:
			b.wake.Broadcast()
			return
		default:
			b.wake.Wait()
		}
	}
}

// gather lets further calls join until none does or the batch is full.
func (b *Batcher[Q, R]) gather() {
	b.gathering = true
	for joined, yields := true, 0; joined && yields < maxYields && len(b.queue) < b.cfg.Size; yields++ {
		before := len(b.queue)
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
		joined = len(b.queue) > before
	}
	b.gathering = false
}

// take moves calls from the queue to a batch, by the rules of the package comment.
func (b *Batcher[Q, R]) take(slot int, batch []*Call[Q, R]) []*Call[Q, R] {
	if len(b.queue) == 0 || b.gathering {
		return batch
	}
	b.gather()
	size := b.cfg.Size
	if b.cfg.Class == nil && b.cfg.Exclusive == nil {
		n := min(len(b.queue), size)
		batch = append(batch, b.queue[:n]...)
		b.queue = slices.Delete(b.queue, 0, n)
		return batch
	}
	clear(b.counts)
	for _, share := range [...]int{max(size/classShare, 1), size} {
		if len(b.counts) > 1 {
			break // no class gets more than its share
		}
		b.queue = slices.DeleteFunc(b.queue, func(c *Call[Q, R]) bool {
			other, isHeld := b.held[c.exclusive]
			if len(batch) == size || b.counts[c.class] == share || (isHeld && other != slot) {
				return false
			}
			if b.cfg.Exclusive != nil {
				b.held[c.exclusive] = slot
			}
			b.counts[c.class]++
			batch = append(batch, c)
			return true
		})
	}
	return batch
}

// run runs a batch without the lock, and gives each caller its result.
func (b *Batcher[Q, R]) run(slot int, calls []*Call[Q, R]) {
	b.running++
	b.wakeOne()
	b.mu.Unlock()
	var missing error = &UnansweredError{}
	defer func() {
		if value := recover(); value != nil {
			missing = &PanicError{Value: value, Stack: debug.Stack()}
		}
		for _, c := range calls {
			if !c.answered {
				c.err = missing
			}
			c.done <- struct{}{} // the caller owns c from here on
		}
		clear(calls)
		b.mu.Lock()
		b.running--
		maps.DeleteFunc(b.held, func(_ uint64, other int) bool { return other == slot })
	}()
	b.cfg.Run(slot, calls)
}
