package keys

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// UnknownKeyError reports that no key has this prefix. Only as much of it is printed as a prefix is long: a caller may have
// given a whole key.
type UnknownKeyError struct{ Prefix string }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("no key has the prefix %q", e.Prefix[:min(len(e.Prefix), PrefixLength)])
}

// UnknownAccountError reports that no account has the id.
type UnknownAccountError struct{ ID uuid.UUID }

func (e *UnknownAccountError) Error() string { return fmt.Sprintf("no account has the id %s", e.ID) }

// UnknownTierError reports that no rate tier has this name.
type UnknownTierError struct{ Tier string }

func (e *UnknownTierError) Error() string { return fmt.Sprintf("no rate tier is named %q", e.Tier) }

// InvalidError names the field of a request that is not valid, and the reason. Nothing was changed.
type InvalidError struct{ Field, Detail string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// RetiredKeyError reports a rotation of a key that is revoked, expired or rotated already.
type RetiredKeyError struct{ Prefix string }

func (e *RetiredKeyError) Error() string {
	return "key " + e.Prefix + " is revoked, has expired or was rotated already"
}

// LimitError reports that an account has the maximum of active keys or, if Rotated, of rotated keys whose overlap has not
// ended. A rotation without an overlap is still possible. Nothing was changed.
type LimitError struct {
	Most    int
	Rotated bool
}

func (e *LimitError) Error() string {
	kind := "active keys"
	if e.Rotated {
		kind = "rotated keys whose overlap has not ended"
	}
	return fmt.Sprintf("the account has %d %s, and no more are allowed", e.Most, kind)
}

// FullError reports that the API pods have no memory for another key: the largest directory of keys takes Used bytes, and the smallest
// limit is Budget. Nothing was changed.
type FullError struct{ Used, Budget int64 }

func (e *FullError) Error() string {
	return fmt.Sprintf("the API pods have no room for another key, since their keys take %d of %d bytes: "+
		"raise the memory of the pods (or --key-directory-mib), or revoke keys", e.Used, e.Budget)
}

// ManagedTierError reports that a tier belongs to another manager. Nothing was changed.
type ManagedTierError struct{ Tier, Owner string }

func (e *ManagedTierError) Error() string {
	return fmt.Sprintf("rate tier %q is managed by %s", e.Tier, e.Owner)
}

// UnconfirmedError reports that a change is committed, but that some API pod may go by an older state. The same change
// again is safe, and waits again.
type UnconfirmedError struct {
	Waited time.Duration
	Silent int   // pods that had not applied the change
	Err    error // why waiting ended; nil if the time was up
}

func (e *UnconfirmedError) Error() string {
	text := fmt.Sprintf("committed, not confirmed: after %s %d API pods may go by the older state; repeat the command",
		e.Waited.Round(time.Millisecond), e.Silent)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *UnconfirmedError) Unwrap() error { return e.Err }
