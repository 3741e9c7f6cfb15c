package webhooks

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxRetries follow the first attempt (docs/spec.md, part 6).
	maxRetries = 5
	// defaultRetryBase and its factor 5: retries after 10 s, 50 s, 4 min, 21 min and 1 h 44 min, each ±20 %.
	defaultRetryBase = 10 * time.Second
	retryFactor      = 5
	retryJitter      = 0.2
	// maxRetryAfter bounds what a receiver may ask for.
	maxRetryAfter = time.Hour
)

// retryDelay is the wait after the attempt-th try (from 1) failed; ok is false when there is no further one. A receiver
// may ask for a longer wait by Retry-After, within bounds, never for a shorter one.
func retryDelay(base time.Duration, attempt int, asked time.Duration) (delay time.Duration, ok bool) {
	if attempt > maxRetries {
		return 0, false
	}
	delay = base
	for range attempt - 1 {
		delay *= retryFactor
	}
	spread := 1 - retryJitter + 2*retryJitter*rand.Float64()
	delay = time.Duration(float64(delay) * spread)
	return max(delay, min(asked, maxRetryAfter)), true
}

// retryAfter reads the header (RFC 9110 §10.2.3): seconds or a date; 0 when there is none or it makes no sense.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if value == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(value); err == nil || errors.Is(err, strconv.ErrRange) { // then the nearest there is
		return time.Duration(max(0, min(seconds, int(maxRetryAfter/time.Second)))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
