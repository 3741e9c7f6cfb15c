package batch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"examprep.dev/server/batch"
)

type call = batch.Call[int, int]

// double answers each request with twice its number.
func double(_ int, calls []*call) {
	for _, c := range calls {
		c.Answer(2*c.Request, nil)
	}
}

func newBatcher(t testing.TB, cfg batch.Config[int, int]) *batch.Batcher[int, int] {
	t.Helper()
	b := batch.New(cfg)
	t.Cleanup(b.Close)
	return b
}

// gatedRun is a batch function whose batches wait for the test.
type gatedRun struct {
	started chan []int
	proceed chan func(calls []*call)
}

func newGatedRun() *gatedRun {
	return &gatedRun{started: make(chan []int), proceed: make(chan func([]*call))}
}

func (g *gatedRun) run(_ int, calls []*call) {
	requests := make([]int, len(calls))
	for i, c := range calls {
		requests[i] = c.Request
	}
	g.started <- requests
	(<-g.proceed)(calls)
}

func doubled(calls []*call) { double(0, calls) }

func TestEachCallerGetsItsOwnResult(t *testing.T) {
	b := newBatcher(t, batch.Config[int, int]{Size: 16, InFlight: 2, Queue: 1000, Run: double})
	var callers sync.WaitGroup
	for i := range 500 {
		callers.Go(func() {
			if got, err := b.Do(t.Context(), i); err != nil || got != 2*i {
				t.Errorf("Do(%d) = %d, %v; want %d", i, got, err, 2*i)
			}
		})
	}
	callers.Wait()
}

func TestCallsThatWaitShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatedRun()
		b := newBatcher(t, batch.Config[int, int]{Size: 8, InFlight: 1, Queue: 100, Run: g.run})
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() { _, _ = b.Do(t.Context(), i) })
			synctest.Wait()
		}
		for _, want := range []int{1, 8, 8, 3} {
			if got := len(<-g.started); got != want {
				t.Errorf("got a batch of %d calls, want %d", got, want)
			}
			g.proceed <- doubled
		}
		callers.Wait()
	})
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatedRun()
		b := newBatcher(t, batch.Config[int, int]{Size: 1, InFlight: 1, Queue: 2, Run: g.run})
		for i := range 3 {
			go func() { _, _ = b.Do(t.Context(), i) }()
			synctest.Wait()
		}
		_, err := b.Do(t.Context(), 3)
		var full *batch.FullError
		if !errors.As(err, &full) || full.Queue != 2 {
			t.Errorf("got %v, want a FullError of 2 calls", err)
		}
		if waiting, running := b.Load(); waiting != 2 || running != 1 {
			t.Errorf("Load() = %d, %d; want 2, 1", waiting, running)
		}
		for range 3 {
			<-g.started
			g.proceed <- doubled
		}
	})
}

func TestClassFillsHalfOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatedRun()
		b := newBatcher(t, batch.Config[int, int]{
			Size: 8, InFlight: 1, Queue: 8, Run: g.run, Class: func(q *int) uint64 { return uint64(*q % 2) },
		})
		var callers sync.WaitGroup
		start := func(request int) {
			callers.Go(func() {
				if got, err := b.Do(t.Context(), request); err != nil || got != 2*request {
					t.Errorf("Do(%d) = %d, %v", request, got, err)
				}
			})
			synctest.Wait()
		}
		for range 5 { // one runs, and four wait
			start(1)
		}
		var err error
		callers.Go(func() { _, err = b.Do(t.Context(), 1) })
		synctest.Wait()
		if full, ok := errors.AsType[*batch.FullError](err); !ok || full.Queue != 4 {
			t.Errorf("a further call of the class: %v, want a FullError of 4 calls", err)
		}
		start(2) // another class still has room
		for waiting, _ := b.Load(); waiting > 0; waiting, _ = b.Load() {
			<-g.started
			g.proceed <- doubled
			synctest.Wait()
		}
		<-g.started
		g.proceed <- doubled
		callers.Wait()
	})
}

func TestPanicFailsTheCallsOfItsBatchOnly(t *testing.T) {
	b := newBatcher(t, batch.Config[int, int]{Size: 1, InFlight: 1, Queue: 10, Run: func(_ int, calls []*call) {
		if calls[0].Request == 13 {
			panic("unlucky")
		}
		doubled(calls)
	}})
	_, err := b.Do(t.Context(), 13)
	var panicked *batch.PanicError
	if !errors.As(err, &panicked) || panicked.Value != "unlucky" || len(panicked.Stack) == 0 {
		t.Errorf("got %v, want a PanicError with its value and stack", err)
	}
	if got, err := b.Do(t.Context(), 4); err != nil || got != 8 {
		t.Errorf("afterwards: got %d, %v", got, err)
	}
}

func TestBatchFunctionDividesABatchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatedRun()
		b := newBatcher(t, batch.Config[int, int]{Size: 8, InFlight: 1, Queue: 10, Run: g.run})
		bad := errors.New("bad row")
		statement := func(calls []*call) error { // answers all or none
			for _, c := range calls {
				if c.Request == 3 {
					return bad
				}
			}
			doubled(calls)
			return nil
		}
		divide := func(calls []*call) {
			if statement(calls) == nil {
				return
			}
			for i, c := range calls {
				if err := statement(calls[i : i+1]); err != nil {
					c.Answer(0, err)
				}
			}
		}
		var callers sync.WaitGroup
		for i := range 6 {
			callers.Go(func() {
				got, err := b.Do(t.Context(), i)
				if (i == 3) != errors.Is(err, bad) || (i != 3 && got != 2*i) {
					t.Errorf("Do(%d) = %d, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		<-g.started
		g.proceed <- divide
		if got := len(<-g.started); got != 5 {
			t.Errorf("got a batch of %d", got)
		}
		g.proceed <- divide
		callers.Wait()
	})
}

func TestCloseRunsWaitingCallsAndRefusesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatedRun()
		b := batch.New(batch.Config[int, int]{Size: 2, InFlight: 2, Queue: 10, Run: g.run})
		var done atomic.Int32
		for i := range 7 {
			go func() {
				if got, err := b.Do(context.Background(), i); err == nil && got == 2*i {
					done.Add(1)
				}
			}()
			synctest.Wait()
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.Close()
		}()
		synctest.Wait()
		_, err := b.Do(t.Context(), 9)
		if _, ok := errors.AsType[*batch.ClosedError](err); !ok {
			t.Errorf("got %v, want a ClosedError", err)
		}
		for range 5 { // 1, 1, then 2, 2, 1
			<-g.started
			g.proceed <- doubled
		}
		<-closed
		synctest.Wait()
		if got := done.Load(); got != 7 {
			t.Errorf("%d calls got their results, want 7", got)
		}
	})
}

func TestCallWhoseContextHasEndedDoesNotRun(t *testing.T) {
	b := newBatcher(t, batch.Config[int, int]{Size: 1, InFlight: 1, Queue: 1, Run: func(int, []*call) { t.Error("ran") }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Do(ctx, 1)
	var abandoned *batch.AbandonedError
	if !errors.As(err, &abandoned) || abandoned.Running || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an AbandonedError of a call that did not run", err)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	class := func(q *int) uint64 { return uint64(*q) }
	b := newBatcher(t, batch.Config[int, int]{Size: 16, InFlight: 2, Queue: 100, Run: double, Class: class, Exclusive: class})
	ctx := context.Background()
	got := testing.AllocsPerRun(1000, func() {
		if _, err := b.Do(ctx, 1); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("a call allocates %v times", got)
	}
}

// Callers come, wait, are cancelled and get errors, from many goroutines. Run with -race.
func TestStress(t *testing.T) {
	const callers, rounds = 32, 300
	var running [3]atomic.Bool
	var exclusive [5]atomic.Int32
	bad := errors.New("odd")
	b := batch.New(batch.Config[int, int]{
		Size: 8, InFlight: len(running), Queue: callers - 4,
		Class:     func(q *int) uint64 { return uint64(*q % 3) },
		Exclusive: func(q *int) uint64 { return uint64(*q % len(exclusive)) },
		Run: func(slot int, calls []*call) {
			if running[slot].Swap(true) {
				t.Error("two batches of one slot run at once")
			}
			defer running[slot].Store(false)
			held := map[int]bool{}
			for _, c := range calls {
				held[c.Request%len(exclusive)] = true
			}
			for e := range held {
				if exclusive[e].Add(1) != 1 {
					t.Errorf("two batches have calls of number %d", e)
				}
			}
			defer func() {
				for e := range held {
					exclusive[e].Add(-1)
				}
			}()
			for i, c := range calls {
				switch {
				case c.Request%101 == 0:
					panic(c.Request)
				case c.Request%2 == 1:
					c.Answer(0, bad)
				default:
					double(slot, calls[i:i+1])
				}
			}
		},
	})
	var all sync.WaitGroup
	var answered, refused, gone atomic.Int32
	for i := range callers {
		all.Go(func() {
			for round := range rounds {
				q := i*rounds + round
				ctx, cancel := context.WithCancel(context.Background())
				if q%7 == 0 {
					go cancel()
				}
				got, err := b.Do(ctx, q)
				cancel()
				var abandoned *batch.AbandonedError
				var full *batch.FullError
				var panicked *batch.PanicError
				switch {
				case errors.As(err, &abandoned):
					gone.Add(1)
				case errors.As(err, &full), errors.As(err, &panicked):
					refused.Add(1)
				case q%2 == 1 && errors.Is(err, bad), q%2 == 0 && err == nil && got == 2*q:
					answered.Add(1)
				default:
					t.Errorf("Do(%d) = %d, %v", q, got, err)
				}
			}
		})
	}
	all.Wait()
	b.Close()
	if waiting, batches := b.Load(); waiting != 0 || batches != 0 {
		t.Errorf("left: %d calls, %d batches", waiting, batches)
	}
	t.Logf("%d answered, %d refused or panicked, %d abandoned", answered.Load(), refused.Load(), gone.Load())
	if answered.Load() == 0 {
		t.Error("no call was answered")
	}
}

func BenchmarkDo(b *testing.B) {
	batcher := newBatcher(b, batch.Config[int, int]{Size: 64, InFlight: 2, Queue: 4096, Run: double})
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = batcher.Do(context.Background(), 1)
		}
	})
}
