package client

import (
	"net/http"
	"testing"
	"time"

	"examprep.dev/server/testkit/check"
)

func TestNegativeBackoffIsAnError(t *testing.T) {
	t.Parallel()
	_, err := New("https://exams.example/v1", "service_x", WithBackoff(-time.Second))
	if err == nil {
		t.Error("a client with a negative backoff was made")
	}
}

// TestDelaysAreBounded: of any backoff, after any number of attempts.
func TestDelaysAreBounded(t *testing.T) {
	t.Parallel()
	for _, backoff := range []time.Duration{0, time.Nanosecond, time.Second, time.Hour, 1<<63 - 1} {
		c, err := New("https://exams.example/v1", "service_x", WithBackoff(backoff))
		check.NoError(t, err)
		for attempt := range 100 {
			if d := c.delay(attempt, nil); d < 0 || d > maxBackoff {
				t.Errorf("%s, attempt %d: %s", backoff, attempt, d)
			}
		}
	}
}

// TestALongRetryAfterIsNotWaitedFor: the response is an error at once.
func TestALongRetryAfterIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	get := call{method: http.MethodGet}
	for wait, repeats := range map[time.Duration]bool{0: true, time.Second: true, maxRetryAfter: true, maxRetryAfter + time.Second: false} {
		check.Equal(t, mayRepeat(get, &Error{Status: http.StatusTooManyRequests, RetryAfter: wait}), repeats, "repeated after %s", wait)
	}
}
