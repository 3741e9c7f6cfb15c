package delivery

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// RetryDelays returns the wait before each retry, ±20 %. A delivery is attempted once, and then once for each entry
// (docs/spec.md, part 6).
func RetryDelays() []time.Duration {
	return []time.Duration{10 * time.Second, 50 * time.Second, 250 * time.Second, 1250 * time.Second, 6250 * time.Second}
}

const (
	// retryJitter spreads each wait by this fraction.
	retryJitter = 0.2
	// maxRetryAfter limits what a receiver may ask for.
	maxRetryAfter = time.Hour
)

// nextRetry returns the wait before the next attempt after a number of failures; ok is false after the last one. A receiver may
// ask for a longer wait by Retry-After, within bounds, never for a shorter one.
func nextRetry(delays []time.Duration, failures int, retryAfter time.Duration) (wait time.Duration, ok bool) {
	if failures > len(delays) {
		return 0, false
	}
	spread := 1 - retryJitter + 2*retryJitter*rand.Float64()
	wait = time.Duration(float64(delays[max(failures, 1)-1]) * spread)
	return max(wait, min(retryAfter, maxRetryAfter)), true
}

// parseRetryAfter reads the header (RFC 9110 §10.2.3): seconds or a date. It returns 0 if there is none or it is invalid.
func parseRetryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil || errors.Is(err, strconv.ErrRange) { // then the nearest there is
		return time.Duration(max(0, min(seconds, int(maxRetryAfter/time.Second)))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
