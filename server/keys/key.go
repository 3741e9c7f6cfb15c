package keys

import (
	"time"

	"github.com/google/uuid"
)

// Identity is the part of a key that never changes.
type Identity struct {
	KeyID uuid.UUID
	// FamilyID is the id of the first key of a rotation chain. Attempts belong to it, so a rotated key inherits them.
	FamilyID uuid.UUID
	// AccountID is the account that the key belongs to.
	AccountID uuid.UUID
}

// Tier is an allowance: Requests per Period, refilled continuously, with at most Burst at once.
type Tier struct {
	Name     string
	Requests int
	Period   time.Duration // a whole number of microseconds
	Burst    int
}

// DefaultTier is the name of the tier of keys that no other tier applies to. It always exists.
const DefaultTier = "default"

// Default returns the allowance of the specification: 120 requests per 60 seconds.
func Default() Tier { return Tier{Name: DefaultTier, Requests: 120, Period: time.Minute, Burst: 120} }
