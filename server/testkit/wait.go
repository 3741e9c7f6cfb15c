package testkit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

const (
	// firstPause and longestPause are the first and the longest pause between two checks of a condition.
	firstPause, longestPause = 5 * time.Millisecond, 20 * time.Millisecond
	// patience is the time-out of Eventually and Next. No passing test waits for it.
	patience = 30 * time.Second
	// attemptTimeout is the time-out of one check of Await.
	attemptTimeout = 5 * time.Second
)

// Eventually waits up to 30 seconds until condition holds. Use it for results of other processes and goroutines that
// give no signal. The error message contains what.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Within(t, patience, what, condition)
}

// Within is Eventually with another limit.
func Within(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for pause := firstPause; !condition(); pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// Await calls check until it succeeds or ctx ends, and then returns the last error. Each call has 5 seconds.
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
