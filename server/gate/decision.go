package gate

import (
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/ratelimit"
)

// Outcome is the gate's answer to a request.
type Outcome uint8

// The outcomes. The zero Outcome is Unavailable, so a decision that was never made lets nothing pass.
const (
	// Unavailable: the stores cannot answer, or the pod is overloaded (503). If the key is not known, the client address had a token.
	Unavailable Outcome = iota
	// Allowed: the key or the session is valid, and a token was taken.
	Allowed
	// Limited: no token is left in the bucket of the key, the session or the client address (429).
	Limited
	// Unauthorized: there is no valid key, and the client address had a token. An operation that needs a key returns 401. It is
	// the usual outcome of operations that need none, and they pass.
	Unauthorized
)

func (o Outcome) String() string {
	switch o {
	case Allowed:
		return "allowed"
	case Limited:
		return "limited"
	case Unauthorized:
		return "unauthorized"
	default:
		return "unavailable"
	}
}

// Policy is the allowance that was applied: Requests per Window.
type Policy struct {
	Requests int
	Window   time.Duration
}

// Decision is the gate's answer, with all that the rate headers need.
type Decision struct {
	Outcome Outcome
	// Identity is the key's. It is set only if Outcome is Allowed.
	Identity keys.Identity
	// OfKey reports whether the key is valid. The fields below are then of the key's bucket.
	OfKey bool
	// Limit is the allowance (RateLimit-Limit): that of the key, the session or the client address. Unavailable has the
	// address's if the key is not known.
	Limit int
	// Remaining is the number of tokens left after this request (RateLimit-Remaining).
	Remaining int
	// Reset is the time until the bucket is full, rounded up to whole seconds (RateLimit-Reset).
	Reset time.Duration
	// RetryAfter is the time until the next token, in whole seconds and at least one (Retry-After). It is 0 unless Outcome
	// is Limited or Unavailable.
	RetryAfter time.Duration
	Policy     Policy
}

// unavailable returns a 503 with an allowance.
func unavailable(tier keys.Tier) Decision {
	d := ofTier(tier)
	d.RetryAfter = time.Second
	return d
}

func ofTier(tier keys.Tier) Decision {
	return Decision{Limit: tier.Requests, Policy: Policy{Requests: tier.Requests, Window: tier.Period}}
}

// decide makes a bucket's answer a decision; granted is the outcome of a request that got a token.
func decide(tier keys.Tier, result ratelimit.Result, granted Outcome) Decision {
	d := ofTier(tier)
	d.Remaining, d.Reset = result.Remaining, ceilSeconds(result.Full)
	if result.Allowed {
		if d.Outcome = granted; granted == Unavailable {
			d.RetryAfter = time.Second
		}
		return d
	}
	d.Outcome, d.Remaining, d.RetryAfter = Limited, 0, max(ceilSeconds(result.NextToken), time.Second)
	return d
}

func ceilSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
