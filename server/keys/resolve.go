package keys

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/keysdb"
)

// Tiers are all rate tiers as of one moment. They are never changed.
type Tiers struct {
	// Unreadable is the number of rows that are not valid tiers.
	Unreadable int

	byName    map[string]*Tier
	byPrefix  map[uint32]*Tier
	byAccount map[uuid.UUID]*Tier
	standard  *Tier
}

// ReadTiers reads all tiers.
func ReadTiers(ctx context.Context, queries *keysdb.Queries) (*Tiers, error) {
	rows, err := queries.TiersForDirectory(ctx)
	if err != nil {
		return nil, fmt.Errorf("read tiers: %w", err)
	}
	return NewTiers(rows), nil
}

// NewTiers returns the tiers of rows, which are sorted by name. The keys of an invalid row are refused. Only "default" then
// becomes the allowance of the specification.
func NewTiers(rows []keysdb.TiersForDirectoryRow) *Tiers {
	standard := Default()
	t := &Tiers{byName: map[string]*Tier{}, byPrefix: map[uint32]*Tier{}, byAccount: map[uuid.UUID]*Tier{}, standard: &standard}
	for _, row := range rows {
		tier := &Tier{
			Name: row.Name, Requests: int(row.Requests), Period: time.Duration(row.PeriodUs) * time.Microsecond, Burst: int(row.Burst),
		}
		if err := tier.Validate(); err != nil {
			t.Unreadable++
			tier = nil
		}
		if row.Name == DefaultTier && tier != nil {
			t.standard = tier
		}
		t.byName[row.Name] = tier
		for _, prefix := range row.KeyPrefixes {
			if number, ok := PrefixNumber([]byte(prefix)); ok { // else no key has it
				setIfAbsent(t.byPrefix, number, tier)
			}
		}
		for _, account := range row.AccountIds {
			setIfAbsent(t.byAccount, account, tier)
		}
	}
	return t
}

// Default returns the tier of keys that no other tier applies to.
func (t *Tiers) Default() *Tier { return t.standard }

// Named returns the tier of that name, nil if there is none or if it cannot be read.
func (t *Tiers) Named(name string) *Tier {
	tier := t.byName[name]
	if tier == nil && name == DefaultTier {
		return t.standard
	}
	return tier
}

// Resolve returns the tier that applies to a key, nil if it cannot be read. own is the key's own tier; hasOwn reports
// whether it has one. prefix is the number from [PrefixNumber].
func (t *Tiers) Resolve(own *Tier, hasOwn bool, prefix uint32, account uuid.UUID) *Tier {
	if hasOwn {
		return own
	}
	if tier, ok := t.byPrefix[prefix]; ok {
		return tier
	}
	if tier, ok := t.byAccount[account]; ok {
		return tier
	}
	return t.standard
}

// nameFor returns the name of the tier that applies to a stored key, the key's own name for a tier that cannot be read.
func (t *Tiers) nameFor(own *string, prefix string, account uuid.UUID) string {
	if own != nil {
		return *own
	}
	number, _ := PrefixNumber([]byte(prefix))
	if tier := t.Resolve(nil, false, number, account); tier != nil {
		return tier.Name
	}
	return ""
}

// PrefixNumber returns the 8 hexadecimal digits of a key's prefix as a number. ok is false for any other text.
func PrefixNumber(prefix []byte) (number uint32, ok bool) {
	var digits [4]byte
	if len(prefix) != PrefixLength || string(prefix[:len(Scheme)]) != Scheme {
		return 0, false
	}
	if _, err := hex.Decode(digits[:], prefix[len(Scheme):]); err != nil {
		return 0, false
	}
	return binary.BigEndian.Uint32(digits[:]), true
}

func setIfAbsent[K comparable, V any](m map[K]V, key K, value V) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}
