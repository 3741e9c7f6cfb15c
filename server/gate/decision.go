package gate

import (
	"time"

	"examprep.dev/server/keys"
)

// Outcome is what the gate says of a request.
type Outcome uint8

// The outcomes. The zero Outcome is Unavailable: a decision that was never made lets nothing pass.
const (
	// Unavailable: neither store could answer in time, or the pod is overloaded (503).
	Unavailable Outcome = iota
	// Allowed: the key is valid and a token was taken.
	Allowed
	// Limited: no token is left, of the key or, without a valid key, of the client's address (429).
	Limited
	// Unauthorized: there is no valid key, and the client's address has a token left (401).
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
	// Identity is set if Outcome is Allowed, and only then.
	Identity keys.Identity
	// OfKey says that the key is valid: what follows is its allowance, not that of the client's address.
	OfKey bool
	// Limit is the allowance (RateLimit-Limit); it is that of the address when the key is not valid.
	Limit int
	// Remaining is how many tokens are left after this request (RateLimit-Remaining).
	Remaining int
	// Reset is how long until the bucket is full again, rounded up to whole seconds (RateLimit-Reset).
	Reset time.Duration
	// RetryAfter is how long until the next token, in whole seconds and at least one; 0 unless Outcome is Limited or
	// Unavailable (Retry-After).
	RetryAfter time.Duration
	Policy     Policy
}
