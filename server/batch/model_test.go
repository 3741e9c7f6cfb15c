package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"examprep.dev/server/batch"
)

const (
	classes  = 3
	numbers  = 4 // of exclusive numbers
	modelMax = 8 // calls in a batch
)

// modelCall is one call, in the test and in the model: it waits, runs or is finished.
type modelCall struct {
	id, class, exclusive int
	cancel               context.CancelFunc
	cancelled            bool

	result int
	err    error
	done   bool
}

// runningBatch is a batch of the real batcher that waits for the test.
type runningBatch struct {
	ids     []int
	proceed chan func([]*batch.Call[*modelCall, int])
}

// modelRun plays a batcher and its model.
type modelRun struct {
	real           *batch.Batcher[*modelCall, int]
	fair, excludes bool
	inFlight, most int

	mu      sync.Mutex
	started []*runningBatch

	queue   []*modelCall
	running [][]*modelCall
	next    int
}

// take is the rule of the package comment, in the plainest form.
func (m *modelRun) take() []*modelCall {
	var taken []*modelCall
	count := map[int]int{}
	held := func(c *modelCall) bool {
		return m.excludes && slices.ContainsFunc(m.running, func(other []*modelCall) bool {
			return slices.ContainsFunc(other, func(o *modelCall) bool { return o.exclusive == c.exclusive })
		})
	}
	for _, share := range []int{modelMax / 4, modelMax} {
		if share == modelMax && len(count) > 1 && m.fair {
			break
		}
		for _, c := range m.queue {
			if len(taken) < modelMax && !slices.Contains(taken, c) && !held(c) && (!m.fair || count[c.class] < share) {
				taken = append(taken, c)
				count[c.class]++
			}
		}
	}
	m.queue = slices.DeleteFunc(m.queue, func(c *modelCall) bool { return slices.Contains(taken, c) })
	return taken
}

// schedule starts batches in the model while workers are free and calls can run.
func (m *modelRun) schedule() {
	for len(m.running) < m.inFlight {
		taken := m.take()
		if len(taken) == 0 {
			return
		}
		m.running = append(m.running, taken)
	}
}

func (m *modelRun) do(t *rapid.T) {
	c := &modelCall{id: m.next, class: rapid.IntRange(0, classes-1).Draw(t, "class")}
	c.exclusive = c.class + rapid.IntRange(0, numbers-classes).Draw(t, "exclusive")
	m.next++
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		result, err := m.real.Do(ctx, c)
		m.mu.Lock()
		defer m.mu.Unlock()
		c.result, c.err, c.done = result, err, true
	}()
	ofClass := 0
	for _, other := range m.queue {
		if other.class == c.class {
			ofClass++
		}
	}
	if len(m.queue) == m.most || m.fair && ofClass >= max(m.most/2, 1) {
		synctest.Wait()
		if _, ok := errors.AsType[*batch.FullError](c.err); !ok {
			t.Fatalf("call %d into a full queue: done %v, error %v", c.id, c.done, c.err)
		}
		return
	}
	m.queue = append(m.queue, c)
	m.schedule()
}

func (m *modelRun) cancel(t *rapid.T) {
	all := slices.Concat(append([][]*modelCall{m.queue}, m.running...)...)
	all = slices.DeleteFunc(all, func(c *modelCall) bool { return c.cancelled })
	if len(all) == 0 {
		t.Skip("no call to cancel")
	}
	c := rapid.SampledFrom(all).Draw(t, "call")
	c.cancelled = true
	c.cancel()
	synctest.Wait()
	waits := slices.Contains(m.queue, c)
	var abandoned *batch.AbandonedError
	if !errors.As(c.err, &abandoned) || abandoned.Running == waits {
		t.Fatalf("call %d, waiting %v, cancelled: done %v, error %v", c.id, waits, c.done, c.err)
	}
	m.queue = slices.DeleteFunc(m.queue, func(other *modelCall) bool { return other == c })
}

var errModel = errors.New("refused")

func (m *modelRun) finish(t *rapid.T) {
	if len(m.running) == 0 {
		t.Skip("no batch runs")
	}
	synctest.Wait()
	at := rapid.IntRange(0, len(m.running)-1).Draw(t, "batch")
	calls := m.running[at]
	how := rapid.SampledFrom([]string{"answer", "refuse", "panic", "forget"}).Draw(t, "how")
	answered := rapid.IntRange(0, len(calls)).Draw(t, "answered")
	m.mu.Lock()
	i := slices.IndexFunc(m.started, func(b *runningBatch) bool { return b.ids[0] == calls[0].id })
	if i < 0 {
		t.Fatalf("the batch of call %d does not run", calls[0].id)
	}
	proceed := m.started[i].proceed
	m.started = slices.Delete(m.started, i, i+1)
	m.mu.Unlock()
	proceed <- func(running []*batch.Call[*modelCall, int]) {
		for i, c := range running {
			switch {
			case how == "answer" || i < answered:
				c.Answer(c.Request.id, nil)
			case how == "refuse":
				c.Answer(0, errModel)
			case how == "panic":
				panic(how)
			}
		}
	}
	synctest.Wait()
	for i, c := range calls {
		var panicked *batch.PanicError
		var forgotten *batch.UnansweredError
		var good bool
		switch {
		case c.cancelled:
			good = true // checked when it was cancelled
		case how == "answer" || i < answered:
			good = c.err == nil && c.result == c.id
		case how == "refuse":
			good = errors.Is(c.err, errModel)
		case how == "panic":
			good = errors.As(c.err, &panicked)
		default:
			good = errors.As(c.err, &forgotten)
		}
		if !c.done || !good {
			t.Fatalf("call %d of a batch that ended by %s: done %v, result %d, error %v", c.id, how, c.done, c.result, c.err)
		}
	}
	m.running = slices.Delete(m.running, at, at+1)
	m.schedule()
}

// compare checks that the same batches run and the same number of calls wait as in the model.
func (m *modelRun) compare(t *rapid.T) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	var want, got []string
	for _, calls := range m.running {
		var ids []int
		for _, c := range calls {
			ids = append(ids, c.id)
		}
		want = append(want, fmt.Sprint(ids))
	}
	for _, b := range m.started {
		got = append(got, fmt.Sprint(b.ids))
	}
	slices.Sort(want)
	slices.Sort(got)
	waiting, running := m.real.Load()
	if !slices.Equal(got, want) || waiting != len(m.queue) || running != len(m.running) {
		t.Fatalf("batches %v run and %d calls wait; want %v and %d", got, waiting, want, len(m.queue))
	}
}

// inBubble is a test without Deadline, which a synctest bubble forbids.
type inBubble struct{ testing.TB }

func TestBatcherAgreesWithTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			m := &modelRun{
				fair: rapid.Bool().Draw(t, "fair"), excludes: rapid.Bool().Draw(t, "excludes"),
				inFlight: rapid.IntRange(1, 3).Draw(t, "in flight"), most: rapid.IntRange(1, 30).Draw(t, "queue"),
			}
			cfg := batch.Config[*modelCall, int]{Size: modelMax, InFlight: m.inFlight, Queue: m.most}
			if m.fair {
				cfg.Class = func(c **modelCall) uint64 { return uint64((*c).class) }
			}
			if m.excludes {
				cfg.Exclusive = func(c **modelCall) uint64 { return uint64((*c).exclusive) }
			}
			cfg.Run = func(_ int, calls []*batch.Call[*modelCall, int]) {
				b := &runningBatch{proceed: make(chan func([]*batch.Call[*modelCall, int]))}
				for _, c := range calls {
					b.ids = append(b.ids, c.Request.id)
				}
				m.mu.Lock()
				m.started = append(m.started, b)
				m.mu.Unlock()
				(<-b.proceed)(calls)
			}
			m.real = batch.New(cfg)
			t.Repeat(map[string]func(*rapid.T){
				"": m.compare, "do": m.do, "do again": m.do, "do once more": m.do, "cancel": m.cancel, "finish": m.finish,
			})
			for len(m.running) > 0 {
				m.finish(t)
				m.compare(t)
			}
			m.real.Close()
		})
	})
}
