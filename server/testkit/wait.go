package testkit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Patience is the only time-out of tests. No passing test waits for it, so it is long: a busy machine must not fail a test.
// Settings of the product that must not act in a test, such as a time-out, are set to it too.
const Patience = 2 * time.Minute

const (
	// firstPause and longestPause are the first and the longest pause between two checks of a condition.
	firstPause, longestPause = 5 * time.Millisecond, 20 * time.Millisecond
	// attemptTimeout is the time-out of one check of Await.
	attemptTimeout = Patience / 4
)

// Eventually waits up to [Patience] until condition holds. Use it for results of other processes and goroutines that
// give no signal. The error message contains what.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for pause := firstPause; !condition(); pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// Receive waits up to [Patience] for a value from channel, or for its close. The error message contains what.
func Receive[V any](t testing.TB, channel <-chan V, what string) V {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	select {
	case value := <-channel:
		return value
	case <-deadline.C:
		t.Fatalf("never happened: %s", what)
		panic("unreachable")
	}
}

// Await calls check until it succeeds or ctx ends, and then returns the last error. Each call has 30 seconds.
func Await(ctx context.Context, what string, check func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("never happened: %s: %w", what, err)
		}
	}
}

// Run runs part in the background until the test ends or stop is called. Both cancel its context and wait for its return.
// An error of part fails the test.
func Run(t testing.TB, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("a part ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
