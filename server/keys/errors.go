package keys

import (
	"fmt"
	"time"
)

// UnknownKeyError says that no key has this prefix. Prefix is empty when the key was looked up by its hash. Only as much
// of it is printed as a prefix is long: somebody may have given a whole key.
type UnknownKeyError struct{ Prefix string }

func (e *UnknownKeyError) Error() string {
	if e.Prefix == "" {
		return "no such key"
	}
	return fmt.Sprintf("no key has the prefix %q", e.Prefix[:min(len(e.Prefix), PrefixLength)])
}

// UnknownTierError says that no rate tier has this name.
type UnknownTierError struct{ Tier string }

func (e *UnknownTierError) Error() string { return fmt.Sprintf("no rate tier is named %q", e.Tier) }

// InvalidError says which field of a request cannot be taken, and why. Nothing was changed.
type InvalidError struct{ Field, Detail string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// RetiredKeyError says that a key that is revoked, expired or rotated already was asked to go on.
type RetiredKeyError struct{ Prefix string }

func (e *RetiredKeyError) Error() string {
	return fmt.Sprintf("key %s is revoked, has expired or was rotated already", e.Prefix)
}

// LimitError says that an account has as many keys as it may have: live ones, or rotated ones whose overlap has not ended.
// Nothing was changed.
type LimitError struct {
	Most int
	// Rotated says that it is the rotated ones which are too many: a rotation without an overlap is still possible.
	Rotated bool
}

func (e *LimitError) Error() string {
	if e.Rotated {
		return fmt.Sprintf("the account has %d rotated keys whose overlap has not ended, and no more are allowed", e.Most)
	}
	return fmt.Sprintf("the account has %d live keys, and no more are allowed", e.Most)
}

// ManagedTierError says that a tier belongs to another manager. Nothing was changed.
type ManagedTierError struct{ Tier, Owner string }

func (e *ManagedTierError) Error() string {
	return fmt.Sprintf("rate tier %q is managed by %s", e.Tier, e.Owner)
}

// NotAnnouncedError says that a change is committed and durable, but that the caller's time ran out before every gate
// was known to see it. It is announced as soon as any gate reaches both stores; asking for the same change again is
// safe and waits for it.
type NotAnnouncedError struct {
	// Keys counts the keys whose change is committed.
	Keys int
	// Waited is how long the announcement was tried.
	Waited time.Duration
	Err    error
}

func (e *NotAnnouncedError) Error() string {
	return fmt.Sprintf("committed for %d key(s), but not known to every gate after %s: %v",
		e.Keys, e.Waited.Round(time.Millisecond), e.Err)
}

func (e *NotAnnouncedError) Unwrap() error { return e.Err }
