package ratelimit_test

import (
	"sync"
	"testing"
	"time"

	"examprep.dev/server/ratelimit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func peek(t testing.TB, l *ratelimit.Limiter, id ratelimit.ID, r ratelimit.Rate) ratelimit.Result {
	t.Helper()
	result, err := l.Peek(t.Context(), id, r)
	check.NoError(t, err)
	check.Equal(t, result.Allowed, false, "a peek is granted")
	return result
}

func TestPeekTakesNothing(t *testing.T) {
	rdb, prefix := shared(t)
	l := newLimiter(t, ratelimit.Config{Prefix: prefix, CallTimeout: testkit.Patience}, rdb)
	r := rate(t, 3, time.Hour, 3)
	for left := 3; left > 0; left-- {
		for range 4 {
			check.Equal(t, peek(t, l, id(1), r).Remaining, left, "tokens")
		}
		take(t, l, id(1), r)
	}
	if got := peek(t, l, id(1), r); got.Remaining != 0 || got.NextToken <= 0 || got.Full < 59*time.Minute {
		t.Errorf("of an empty bucket: got %+v", got)
	}
	check.Equal(t, peek(t, l, id(2), ratelimit.Rate{}), ratelimit.Result{}, "the zero rate")
}

// TestPeekInABatchTakesNothing: Redis falls silent until all requests wait.
func TestPeekInABatchTakesNothing(t *testing.T) {
	server := testkit.StartRedis(t)
	l := newLimiter(t, ratelimit.Config{CallTimeout: testkit.Patience, InFlight: 1}, open(t, server.URL(), patientOptions))
	const requests = 50
	r := rate(t, 1, time.Hour, requests+1)
	take(t, l, id(2), r)
	server.Pause()
	defer server.Resume()
	var group sync.WaitGroup
	for range requests {
		group.Go(func() { peek(t, l, id(1), r) })
		group.Go(func() {
			if !take(t, l, id(1), r).Allowed {
				t.Error("a request got no token")
			}
		})
	}
	server.Resume()
	group.Wait()
	check.Equal(t, peek(t, l, id(1), r).Remaining, 1, "tokens")
}

func TestPeekOfAPodsShareTakesNothing(t *testing.T) {
	server := testkit.StartRedis(t)
	server.Kill()
	var clock manualClock
	l := newLimiter(t, ratelimit.Config{Pods: func() int { return 2 }, Now: clock.now}, open(t, "redis://"+server.Address(), ratelimit.ClientOptions))
	r := rate(t, 60, time.Minute, 60)
	for range 3 {
		if got := peek(t, l, id(1), r); !got.Local || got.Remaining != 30 {
			t.Errorf("got %+v", got)
		}
	}
	check.Equal(t, take(t, l, id(1), r).Remaining, 29, "tokens after one was taken")
}
