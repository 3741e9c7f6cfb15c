package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/keysdb"
)

const (
	maxRequests = 10_000_000
	minPeriod   = time.Millisecond
	maxPeriod   = 31 * 24 * time.Hour
	// maxBucket keeps the contents of a bucket exact in a double: burst × period (µs), after requests and period were
	// divided by their common divisor.
	maxBucket = 1 << 50
)

// TierSpec declares a tier, as a RateTier resource does.
type TierSpec struct {
	Name     string
	Requests int
	Period   time.Duration
	// Burst is the bucket's size; 0 means Requests.
	Burst int
	// KeyPrefixes and Accounts name the keys and accounts that the tier applies to.
	KeyPrefixes, Accounts []string
	// ManagedBy is the tier's owner, such as "cluster/namespace/name". Only the owner can change or delete it then.
	ManagedBy string
}

// reduceRate returns a tier's rate as requests per microseconds in lowest terms: the unit in which a bucket counts is
// 1/period of a token, so smaller terms keep larger buckets exact.
func (t Tier) reduceRate() (requests, periodMicros int64) {
	requests, periodMicros = int64(t.Requests), t.Period.Microseconds()
	a, b := requests, periodMicros
	for b != 0 {
		a, b = b, a%b
	}
	return requests / a, periodMicros / a
}

// ApplyTier makes the tier be as declared. When it returns nil, every API pod applies it. Nothing is written if it is so
// already; the pods are then waited for as well, since an earlier call may have ended without their confirmation.
func (s *Store) ApplyTier(ctx context.Context, spec TierSpec) error {
	if spec.Burst == 0 {
		spec.Burst = spec.Requests
	}
	if err := validateTier(spec); err != nil {
		return err
	}
	spec.KeyPrefixes, spec.Accounts = sortUnique(spec.KeyPrefixes), sortUnique(spec.Accounts)
	if row, err := s.queries.GetTier(ctx, spec.Name); err == nil && equalTier(row, spec) {
		return s.pods.Confirm(ctx, Restriction)
	}
	return s.changeTier(ctx, spec.Name, spec.ManagedBy, func(q *keysdb.Queries) error {
		return putTier(ctx, q, spec, spec.ManagedBy)
	})
}

// DeleteTier removes a tier. Keys that had it, also as their own, fall back to the tier that the rule gives them then.
// Deleting "default" restores the allowance of the specification. A tier that does not exist is no mistake.
func (s *Store) DeleteTier(ctx context.Context, name, managedBy string) error {
	return s.changeTier(ctx, name, managedBy, func(q *keysdb.Queries) error {
		if name == DefaultTier {
			tier := Default()
			return putTier(ctx, q, TierSpec{
				Name: name, Requests: tier.Requests, Period: tier.Period, Burst: tier.Burst, KeyPrefixes: []string{}, Accounts: []string{},
			}, managedBy)
		}
		if err := q.UnassignTier(ctx, &name); err != nil {
			return fmt.Errorf("unassign tier: %w", err)
		}
		if err := q.DeleteTier(ctx, name); err != nil {
			return fmt.Errorf("delete tier: %w", err)
		}
		return nil
	})
}

// putTier writes a tier that manager owns or nothing else owns.
func putTier(ctx context.Context, q *keysdb.Queries, spec TierSpec, manager string) error {
	rows, err := q.PutTier(ctx, keysdb.PutTierParams{
		Name: spec.Name, Requests: int32(spec.Requests), PeriodUs: spec.Period.Microseconds(), Burst: int32(spec.Burst),
		KeyPrefixes: spec.KeyPrefixes, Accounts: spec.Accounts, ManagedBy: nullIfEmpty(spec.ManagedBy), Manager: nullIfEmpty(manager),
	})
	if err != nil {
		return fmt.Errorf("write tier: %w", err)
	}
	if rows == 0 { // another manager created it after changeTier looked
		return checkManager(ctx, q.GetTier, spec.Name, manager)
	}
	return nil
}

// Tiers returns all tiers by name.
func (s *Store) Tiers(ctx context.Context) ([]TierSpec, error) {
	rows, err := s.queries.ListTiers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tiers: %w", err)
	}
	list := make([]TierSpec, len(rows))
	for i, row := range rows {
		list[i] = TierSpec{
			Name: row.Name, Requests: int(row.Requests), Period: time.Duration(row.PeriodUs) * time.Microsecond,
			Burst: int(row.Burst), KeyPrefixes: row.KeyPrefixes, Accounts: row.Accounts,
		}
		if row.ManagedBy != nil {
			list[i].ManagedBy = *row.ManagedBy
		}
	}
	return list, nil
}

// changeTier changes a tier that manager owns or nothing else owns, commits, and waits for the pods.
func (s *Store) changeTier(ctx context.Context, name, manager string, change func(*keysdb.Queries) error) error {
	err := s.begin(ctx, func(_ pgx.Tx, q *keysdb.Queries) error {
		if err := checkManager(ctx, q.LockTier, name, manager); err != nil {
			return err
		}
		return change(q)
	})
	if err != nil {
		return fmt.Errorf("change tier %q: %w", name, err)
	}
	return s.pods.Confirm(ctx, Restriction)
}

// checkManager returns a *ManagedTierError if the tier belongs to another manager.
func checkManager(ctx context.Context, read func(context.Context, string) (keysdb.RateTier, error), name, manager string) error {
	row, err := read(ctx, name)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read tier: %w", err)
	}
	if row.ManagedBy != nil && *row.ManagedBy != manager {
		return &ManagedTierError{Tier: name, Owner: *row.ManagedBy}
	}
	return nil
}

// Validate returns an error if the tier is not one that ApplyTier accepts: its buckets could not be counted exactly.
func (t Tier) Validate() error {
	return validateTier(TierSpec{Name: t.Name, Requests: t.Requests, Period: t.Period, Burst: t.Burst})
}

func validateTier(spec TierSpec) error {
	tier := Tier{Requests: spec.Requests, Period: spec.Period}
	switch {
	case spec.Name == "":
		return &InvalidError{Field: "name", Detail: "must not be empty"}
	case spec.Requests < 1 || spec.Requests > maxRequests:
		return &InvalidError{Field: "requests", Detail: fmt.Sprintf("must be between 1 and %d", maxRequests)}
	case spec.Period < minPeriod || spec.Period > maxPeriod || spec.Period%time.Microsecond != 0:
		return &InvalidError{Field: "period", Detail: fmt.Sprintf("must be whole microseconds between %s and %s", minPeriod, maxPeriod)}
	case spec.Burst < 1 || spec.Burst > maxRequests:
		return &InvalidError{Field: "burst", Detail: fmt.Sprintf("must be between 1 and %d", maxRequests)}
	}
	if _, period := tier.reduceRate(); period > maxBucket/int64(spec.Burst) {
		return &InvalidError{Field: "burst", Detail: "is too large for this period to be counted exactly"}
	}
	return validateText("name", spec.Name)
}

// sortUnique sorts and removes repetitions, so that order in a resource means nothing. It never returns nil.
func sortUnique(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return append([]string{}, slices.Compact(names)...)
}

func equalTier(row keysdb.RateTier, spec TierSpec) bool {
	owner := ""
	if row.ManagedBy != nil {
		owner = *row.ManagedBy
	}
	return int(row.Requests) == spec.Requests && row.PeriodUs == spec.Period.Microseconds() && int(row.Burst) == spec.Burst &&
		owner == spec.ManagedBy && slices.Equal(row.KeyPrefixes, spec.KeyPrefixes) && slices.Equal(row.Accounts, spec.Accounts)
}
