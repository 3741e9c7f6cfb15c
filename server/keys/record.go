package keys

import (
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/keysdb"
)

// Identity is what never changes about a key.
type Identity struct {
	// KeyID names the key itself.
	KeyID uuid.UUID
	// FamilyID is the id of the first key of a rotation chain; attempts belong to it, so a rotated key inherits them.
	FamilyID uuid.UUID
	// AccountID names the account that the key belongs to.
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

// Record is a key as a gate needs it, read in one snapshot.
type Record struct {
	Identity
	Hash   Hash
	Prefix string
	// Version rises with every change that a gate must see; of two records of a key the one with the higher counts.
	Version int64
	// Revoked is final: it is true of revoked keys and of those whose expiry has passed by the database's clock.
	Revoked bool
	// ExpiresAt is zero for a key that never expires.
	ExpiresAt time.Time
	// Tier is the tier that applies, by the rule of the package comment.
	Tier Tier
}

func recordOf(row keysdb.ApiKeyRecord) Record {
	record := Record{
		Identity: Identity{KeyID: row.ID, FamilyID: row.FamilyID, AccountID: row.AccountID},
		Hash:     Hash(row.Hash),
		Prefix:   row.Prefix,
		Version:  row.Version,
		Revoked:  row.Revoked,
		Tier: Tier{
			Name: row.Tier, Requests: int(row.Requests), Burst: int(row.Burst),
			Period: time.Duration(row.PeriodUs) * time.Microsecond,
		},
	}
	if row.ExpiresAt != nil {
		record.ExpiresAt = *row.ExpiresAt
	}
	return record
}

func recordsOf(rows []keysdb.ApiKeyRecord) []Record {
	records := make([]Record, len(rows))
	for i, row := range rows {
		records[i] = recordOf(row)
	}
	return records
}
