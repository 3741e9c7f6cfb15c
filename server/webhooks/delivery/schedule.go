package delivery

import (
	"math/rand/v2"
	"time"

	"examprep.dev/server/webhooks/delivery/send"
)

// RetryDelays returns the wait before each retry, ±20 %. A delivery is attempted once, and then once for each entry
// (docs/spec.md, part 6).
func RetryDelays() []time.Duration {
	return []time.Duration{10 * time.Second, 50 * time.Second, 250 * time.Second, 1250 * time.Second, 6250 * time.Second}
}

// retryJitter spreads each wait by this fraction.
const retryJitter = 0.2

// nextRetry returns the wait before the next attempt after a number of failures; ok is false after the last one. A receiver may
// ask for a longer wait by Retry-After, within bounds, never for a shorter one.
func nextRetry(delays []time.Duration, failures int, retryAfter time.Duration) (wait time.Duration, ok bool) {
	if failures > len(delays) {
		return 0, false
	}
	spread := 1 - retryJitter + 2*retryJitter*rand.Float64()
	wait = time.Duration(float64(delays[max(failures, 1)-1]) * spread)
	return max(wait, min(retryAfter, send.MaxRetryAfter)), true
}
