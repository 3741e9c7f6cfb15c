package batch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Config describes a [Batcher]. Q is the type of a request, R that of a result.
type Config[Q, R any] struct {
	// Size is the maximum number of calls in a batch. Less than 1 means 1, here and below.
	Size int
	// InFlight is the maximum number of batches that run at once.
	InFlight int
	// Queue is the maximum number of calls that wait.
	Queue int
	// Run answers the calls of a batch. It must not keep them or the slice. Batches with the same slot (0 to InFlight-1)
	// never run at once, so memory and connections can belong to a slot.
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
	state            state
	done             chan struct{} // has one element when the call is finished
}

type state uint8

const (
	waiting   state = iota // in the queue
	runs                   // in a running batch
	abandoned              // in a running batch, and its caller is gone
	finished               // its caller can read the result
)

// Answer sets the result of the call; the last answer counts. The caller gets it when the batch function has returned.
func (c *Call[Q, R]) Answer(result R, err error) { c.result, c.err, c.answered = result, err, true }

// Answered reports whether Answer was called.
func (c *Call[Q, R]) Answered() bool { return c.answered }

// AbandonedError reports that a caller's context ended before its call had a result.
type AbandonedError struct {
	// Running reports whether the call was in a running batch: it may have had its effect. If false, it never runs.
	Running bool
	// Cause is the error of the context.
	Cause error
}

func (e *AbandonedError) Error() string {
	if e.Running {
		return fmt.Sprintf("the batch did not end in time, its effect is unknown: %v", e.Cause)
	}
	return fmt.Sprintf("the call waited too long and did not run: %v", e.Cause)
}

func (e *AbandonedError) Unwrap() error { return e.Cause }

// FullError reports that too many calls wait. The call did not run.
type FullError struct{ Queue int }

func (e *FullError) Error() string {
	return fmt.Sprintf("%d calls wait already: try again later", e.Queue)
}

// ClosedError reports a call after [Batcher.Close]. The call did not run.
type ClosedError struct{}

func (*ClosedError) Error() string { return "the batcher is closed" }

// PanicError reports that the batch function panicked before it answered the call.
type PanicError struct {
	// Value is the value of the panic, Stack the stack of its goroutine.
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("the batch function panicked: %v", e.Value) }

// UnansweredError reports that the batch function returned without an answer to the call.
type UnansweredError struct{}

func (*UnansweredError) Error() string { return "the batch function did not answer the call" }

// Batcher groups calls. [New] makes one; it must be closed.
type Batcher[Q, R any] struct {
	cfg   Config[Q, R]
	full  *FullError
	yield func() // lets goroutines run that are ready to
	calls sync.Pool
	ended sync.WaitGroup

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []*Call[Q, R]
	joined  uint64 // calls that ever joined the queue
	running int    // batches
	idle    int    // workers in wake.Wait
	// A worker was woken to take what waits, or gathers it. No second one must divide it.
	woken, gathering bool
	closed           bool
	held             map[uint64]int // the slot that runs each exclusive number
}

// New returns a batcher and starts its workers.
func New[Q, R any](cfg Config[Q, R]) *Batcher[Q, R] {
	cfg.Size, cfg.InFlight, cfg.Queue = max(cfg.Size, 1), max(cfg.InFlight, 1), max(cfg.Queue, 1)
	b := &Batcher[Q, R]{cfg: cfg, full: &FullError{Queue: cfg.Queue}, yield: runtime.Gosched, held: map[uint64]int{}}
	b.wake = sync.NewCond(&b.mu)
	b.calls.New = func() any { return &Call[Q, R]{done: make(chan struct{}, 1)} }
	for slot := range cfg.InFlight {
		b.ended.Go(func() { (&worker[Q, R]{b: b, slot: slot, counts: map[uint64]int{}}).work() })
	}
	return b
}

// Do runs a request in a batch, and returns its result. The errors besides those of [Call.Answer] are in the package comment.
func (b *Batcher[Q, R]) Do(ctx context.Context, request Q) (R, error) {
	if err := ctx.Err(); err != nil {
		var none R
		return none, &AbandonedError{Cause: err}
	}
	c, err := b.enter(request)
	if err != nil {
		var none R
		return none, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		running, has := b.abandon(c)
		if !has {
			var none R
			return none, &AbandonedError{Running: running, Cause: ctx.Err()}
		}
		<-c.done
	}
	result, err := c.result, c.err
	b.release(c)
	return result, err
}

// Load returns the numbers of calls that wait and of batches that run.
func (b *Batcher[Q, R]) Load() (waiting, running int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue), b.running
}

// Close refuses new calls and returns when all others have their results.
func (b *Batcher[Q, R]) Close() {
	b.mu.Lock()
	b.closed = true
	b.wake.Broadcast()
	b.mu.Unlock()
	b.ended.Wait()
}

// enter puts a request at the end of the queue, and wakes a worker if one is idle.
func (b *Batcher[Q, R]) enter(request Q) (*Call[Q, R], error) {
	c, _ := b.calls.Get().(*Call[Q, R])
	c.Request, c.state = request, waiting
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
		b.release(c)
		return nil, &ClosedError{}
	case len(b.queue) >= b.cfg.Queue:
		b.release(c)
		return nil, b.full
	}
	b.queue = append(b.queue, c)
	b.joined++
	b.wakeOne()
	return c, nil
}

// wakeOne wakes an idle worker, unless another one is about to take what waits.
func (b *Batcher[Q, R]) wakeOne() {
	if b.idle > 0 && !b.woken && !b.gathering {
		b.woken = true
		b.wake.Signal()
	}
}

// abandon takes a call out of the queue, or leaves it to its worker if it runs. If has is true, the call has finished and done gets its element.
func (b *Batcher[Q, R]) abandon(c *Call[Q, R]) (running, has bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c.state {
	case waiting:
		at := slices.Index(b.queue, c)
		b.queue = slices.Delete(b.queue, at, at+1)
		b.release(c)
		return false, false
	case runs:
		c.state = abandoned
		return true, false
	default:
		return false, true
	}
}

// release keeps the memory of a call for another one.
func (b *Batcher[Q, R]) release(c *Call[Q, R]) {
	*c = Call[Q, R]{done: c.done}
	b.calls.Put(c)
}
