package ratelimit

import (
	"fmt"
	"math"
	"time"
)

// ID names a bucket: bytes that no two owners share, such as the first 12 of a SHA-256.
type ID [12]byte

// maxUnits keeps the contents of a bucket exact in a double, with room for what flows in: burst × period (µs), after
// requests and period were divided by their common divisor.
const maxUnits = 1 << 50

// RateError reports a rate that cannot be counted in whole numbers.
type RateError struct{ Detail string }

func (e *RateError) Error() string { return "rate limit: " + e.Detail }

// Rate is the size and the refill of a bucket. [NewRate] makes one; the zero Rate grants nothing.
type Rate struct {
	period          uint64 // µs, in lowest terms with requests; also the units of a token
	requests, burst uint32
}

// NewRate returns the rate of requests per period (whole microseconds), with at most burst tokens at once.
func NewRate(requests int, period time.Duration, burst int) (Rate, error) {
	micros := period.Microseconds()
	if requests < 1 || requests > math.MaxUint32 || burst < 1 || burst > math.MaxUint32 {
		return Rate{}, &RateError{Detail: fmt.Sprintf("requests %d and burst %d must be between 1 and 2^32-1", requests, burst)}
	}
	if micros < 1 || period%time.Microsecond != 0 {
		return Rate{}, &RateError{Detail: fmt.Sprintf("period %s must be whole microseconds", period)}
	}
	a, b := int64(requests), micros
	for b != 0 {
		a, b = b, a%b
	}
	r := Rate{period: uint64(micros / a), requests: uint32(int64(requests) / a), burst: uint32(burst)}
	if r.period > maxUnits/uint64(burst) {
		return Rate{}, &RateError{Detail: fmt.Sprintf("burst %d is too large for the period %s", burst, period)}
	}
	return r, nil
}

// TokenTime returns the time in which a bucket gains one token, rounded up to microseconds.
func (r Rate) TokenTime() time.Duration { return r.until(float64(r.period)) }

// until returns how long a bucket takes to gain units, rounded up to microseconds.
func (r Rate) until(units float64) time.Duration {
	if units <= 0 || r.requests == 0 {
		return 0
	}
	return time.Duration(math.Ceil(units/float64(r.requests))) * time.Microsecond
}

// Result is the answer to one request.
type Result struct {
	// Allowed reports whether the request got a token, Local whether the pod's own bucket decided because Redis is not used.
	Allowed, Local bool
	// Remaining is the number of whole tokens left after the request.
	Remaining int
	// NextToken is the time until the bucket has a token, 0 if it has one. Full is the time until it is full.
	NextToken, Full time.Duration
}

// result describes a bucket of which so many units are missing.
func (r Rate) result(allowed bool, missing float64) Result {
	period := float64(r.period)
	left := float64(r.burst)*period - missing
	return Result{Allowed: allowed, Remaining: int(left / period), NextToken: r.until(period - left), Full: r.until(missing)}
}
