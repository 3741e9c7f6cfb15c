package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/accounts"
	"examprep.dev/server/postgres/keysdb"
)

const (
	// DefaultTier is the name of the tier of keys that no other tier applies to. It always exists.
	DefaultTier = "default"

	maxRequests = 10_000_000
	maxPeriod   = 31 * 24 * time.Hour
	// maxBucket keeps the contents of a bucket exact in a double: burst × period (µs), after requests and period were
	// divided by their common divisor.
	maxBucket = 1 << 50
)

// Tier is an allowance: Requests per Period, refilled continuously, with at most Burst at once.
type Tier struct {
	Name     string
	Requests int
	Period   time.Duration // whole seconds, as RateLimit-Policy has them
	Burst    int
}

// Default returns the allowance of the specification: 120 requests per 60 seconds.
func Default() Tier { return Tier{Name: DefaultTier, Requests: 120, Period: time.Minute, Burst: 120} }

// Validate returns an *InvalidError if the tier is not one that ApplyTier accepts. The buckets of a tier without an error
// are counted exactly.
func (t Tier) Validate() error {
	switch {
	case t.Requests < 1 || t.Requests > maxRequests:
		return &InvalidError{Field: "requests", Detail: fmt.Sprintf("must be between 1 and %d", maxRequests)}
	case t.Period < time.Second || t.Period > maxPeriod || t.Period%time.Second != 0:
		return &InvalidError{Field: "period", Detail: fmt.Sprintf("must be whole seconds between %s and %s", time.Second, maxPeriod)}
	case t.Burst < 1 || t.Burst > maxRequests:
		return &InvalidError{Field: "burst", Detail: fmt.Sprintf("must be between 1 and %d", maxRequests)}
	}
	divisor, rest := t.Period.Microseconds(), int64(t.Requests)
	for rest != 0 {
		divisor, rest = rest, divisor%rest
	}
	if t.Period.Microseconds()/divisor > maxBucket/int64(t.Burst) {
		return &InvalidError{Field: "burst", Detail: "is too large for this period to be counted exactly"}
	}
	return validateText("name", t.Name, 1)
}

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
	t := &Tiers{
		byName:    map[string]*Tier{DefaultTier: new(Default())},
		byPrefix:  map[uint32]*Tier{},
		byAccount: map[uuid.UUID]*Tier{},
	}
	for _, row := range slices.Backward(rows) { // the first by name is written last, and so replaces others
		tier := &Tier{
			Name: row.Name, Requests: int(row.Requests), Period: time.Duration(row.PeriodSeconds) * time.Second, Burst: int(row.Burst),
		}
		if tier.Validate() != nil {
			t.Unreadable++
			tier = nil
		}
		if tier != nil || row.Name != DefaultTier {
			t.byName[row.Name] = tier
		}
		for _, prefix := range row.KeyPrefixes {
			if number, ok := PrefixNumber([]byte(prefix)); ok { // else no key has it
				t.byPrefix[number] = tier
			}
		}
		for _, account := range row.AccountIds {
			t.byAccount[account] = tier
		}
	}
	t.standard = t.byName[DefaultTier]
	return t
}

// Default returns the tier of keys that no other tier applies to.
func (t *Tiers) Default() *Tier { return t.standard }

// Named returns the tier of that name, nil if it cannot be read, and reports whether there is one.
func (t *Tiers) Named(name string) (tier *Tier, exists bool) {
	tier, exists = t.byName[name]
	return tier, exists
}

// Resolve returns the tier that applies to a key, nil if it cannot be read. own is the key's own tier; hasOwn reports
// whether it has one that exists. prefix is the number from [PrefixNumber].
func (t *Tiers) Resolve(own *Tier, hasOwn bool, prefix uint32, account uuid.UUID) *Tier {
	if hasOwn {
		return own
	}
	if tier, ok := t.byPrefix[prefix]; ok {
		return tier
	}
	return t.ForNewKey(account)
}

// ForNewKey returns the tier of a key without a tier of its own that an account creates, nil if it cannot be read. No tier names the
// prefix of a key that does not exist yet.
func (t *Tiers) ForNewKey(account uuid.UUID) *Tier {
	if tier, ok := t.byAccount[account]; ok {
		return tier
	}
	return t.standard
}

// nameFor returns the name of the tier that applies to a stored key, the key's own name for a tier that cannot be read.
func (t *Tiers) nameFor(own *string, prefix string, account uuid.UUID) string {
	if own != nil {
		if _, exists := t.byName[*own]; exists {
			return *own
		}
	}
	number, _ := PrefixNumber([]byte(prefix))
	if tier := t.Resolve(nil, false, number, account); tier != nil {
		return tier.Name
	}
	return ""
}

// TierSpec declares a tier, as a RateTier resource does.
type TierSpec struct {
	Name     string
	Requests int
	Period   time.Duration
	Burst    int // the bucket's size; 0 means Requests
	// KeyPrefixes and Accounts name the keys and accounts that the tier applies to. Order and repetitions mean nothing. An
	// account need not exist.
	KeyPrefixes, Accounts []string
	// ManagedBy is the tier's owner, such as "cluster/namespace/name". Only the owner can change or delete it then.
	ManagedBy string
}

// ApplyTier makes the tier be as declared. When it returns nil, every API pod applies it. Nothing is written if it is so
// already; the pods are then waited for as well, since an earlier call may have ended without their confirmation.
func (s *Store) ApplyTier(ctx context.Context, spec TierSpec) error {
	return s.applyTier(ctx, spec, spec.ManagedBy)
}

// applyTier applies a tier that manager owns or nothing else owns.
func (s *Store) applyTier(ctx context.Context, spec TierSpec, manager string) error {
	tier := Tier{Name: spec.Name, Requests: spec.Requests, Period: spec.Period, Burst: cmp.Or(spec.Burst, spec.Requests)}
	if err := tier.Validate(); err != nil {
		return err
	}
	names, err := accountNames(spec.Accounts)
	if err != nil {
		return err
	}
	return s.change(ctx, Restriction, func(_ pgx.Tx, q *keysdb.Queries) error {
		rows, err := q.PutTier(ctx, keysdb.PutTierParams{
			Name: tier.Name, Requests: int32(tier.Requests), PeriodSeconds: int32(tier.Period / time.Second), Burst: int32(tier.Burst),
			KeyPrefixes: spec.KeyPrefixes, Accounts: names,
			ManagedBy: nullIfEmpty(spec.ManagedBy), Manager: nullIfEmpty(manager),
		})
		if err != nil {
			return fmt.Errorf("write tier: %w", err)
		}
		if rows == 0 { // another manager owns it, or it is so already
			return lockTier(ctx, q, tier.Name, manager)
		}
		return nil
	})
}

// accountNames returns the names as PostgreSQL has them, or an *InvalidError of the first that no account can have.
func accountNames(given []string) ([]string, error) {
	names := make([]string, len(given))
	for i, name := range given {
		var err error
		if names[i], err = accounts.Name(name); err != nil {
			if invalid, ok := errors.AsType[*accounts.InvalidError](err); ok {
				return nil, &InvalidError{Field: fmt.Sprintf("accounts[%d]", i), Detail: invalid.Detail}
			}
			return nil, err
		}
	}
	return names, nil
}

// DeleteTier removes a tier and writes no key. Keys that have it as their own go by the rest of the rule, until a tier of that
// name exists again. Deleting "default" restores the allowance of the specification. There is no error if the tier does not exist.
func (s *Store) DeleteTier(ctx context.Context, name, managedBy string) error {
	if name == DefaultTier {
		tier := Default()
		spec := TierSpec{Name: name, Requests: tier.Requests, Period: tier.Period, Burst: tier.Burst}
		return s.applyTier(ctx, spec, managedBy)
	}
	return s.change(ctx, Restriction, func(_ pgx.Tx, q *keysdb.Queries) error {
		if err := lockTier(ctx, q, name, managedBy); err != nil {
			return err
		}
		return q.DeleteTier(ctx, name)
	})
}

// lockTier locks a tier if it exists. It returns a *ManagedTierError if the tier belongs to another manager.
func lockTier(ctx context.Context, q *keysdb.Queries, name, manager string) error {
	owner, err := q.LockTier(ctx, name)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("lock tier: %w", err)
	}
	if owner != nil && *owner != manager {
		return &ManagedTierError{Tier: name, Owner: *owner}
	}
	return nil
}
