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
	// maxBucket keeps the bucket's contents exact in a double: burst × period (µs), after both requests and period were
	// divided by what they have in common.
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
	// ManagedBy names who declares the tier, such as "cluster/namespace/name"; nobody else can change or delete it then.
	ManagedBy string
}

// Reduce returns a tier's rate as requests per microseconds in lowest terms: the unit in which a bucket counts is
// 1/period of a token, so smaller terms keep larger buckets exact.
func (t Tier) Reduce() (requests, periodMicros int64) {
	requests, periodMicros = int64(t.Requests), t.Period.Microseconds()
	a, b := requests, periodMicros
	for b != 0 {
		a, b = b, a%b
	}
	return requests / a, periodMicros / a
}

// ApplyTier makes the tier be as declared, and announces every key whose allowance that may change: when it returns nil,
// every gate applies it. Nothing changes and nothing is written when it is so already (one SELECT); but what an earlier
// call left unannounced is announced then.
func (s *Store) ApplyTier(ctx context.Context, spec TierSpec) error {
	if spec.Burst == 0 {
		spec.Burst = spec.Requests
	}
	if err := checkTier(spec); err != nil {
		return err
	}
	spec.KeyPrefixes, spec.Accounts = canonical(spec.KeyPrefixes), canonical(spec.Accounts)
	if row, err := s.queries.TierInEffect(ctx, spec.Name); err == nil && same(row.RateTier, spec) {
		if row.Pending {
			return s.raise(ctx)
		}
		return nil
	}
	return s.changeTier(ctx, spec.Name, spec.ManagedBy, func(q *keysdb.Queries) error {
		err := q.PutTier(ctx, keysdb.PutTierParams{
			Name: spec.Name, Requests: int32(spec.Requests), PeriodUs: spec.Period.Microseconds(), Burst: int32(spec.Burst),
			KeyPrefixes: spec.KeyPrefixes, Accounts: spec.Accounts, ManagedBy: optional(spec.ManagedBy),
		})
		if err != nil {
			return fmt.Errorf("write tier: %w", err)
		}
		return nil
	})
}

// DeleteTier removes a tier; keys that had it, also as their own, fall back to what the rule gives them then. Deleting
// "default" restores the specification's allowance. A tier that is not there is no mistake.
func (s *Store) DeleteTier(ctx context.Context, name, managedBy string) error {
	return s.changeTier(ctx, name, managedBy, func(q *keysdb.Queries) error {
		if name == DefaultTier {
			tier := Default()
			err := q.PutTier(ctx, keysdb.PutTierParams{
				Name: name, Requests: int32(tier.Requests), PeriodUs: tier.Period.Microseconds(), Burst: int32(tier.Burst),
				KeyPrefixes: []string{}, Accounts: []string{},
			})
			if err != nil {
				return fmt.Errorf("restore default tier: %w", err)
			}
			return nil
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

// changeTier lists every key to which the tier applies before the change or after it, commits, and raises and announces
// them.
func (s *Store) changeTier(ctx context.Context, name, manager string, change func(*keysdb.Queries) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if err := q.TakeTierLock(ctx); err != nil {
			return fmt.Errorf("lock tiers: %w", err)
		}
		row, err := q.GetTier(ctx, name)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read tier: %w", err)
		}
		if row.ManagedBy != nil && *row.ManagedBy != manager {
			return &ManagedTierError{Tier: name, Owner: *row.ManagedBy}
		}
		if err := q.ListKeysOnTier(ctx, name); err != nil {
			return fmt.Errorf("list keys before: %w", err)
		}
		if err := change(q); err != nil {
			return err
		}
		if err := q.ListKeysOnTier(ctx, name); err != nil {
			return fmt.Errorf("list keys after: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("change tier %q: %w", name, err)
	}
	return s.raise(ctx)
}

// Validate returns an error if the tier is not one that ApplyTier accepts: its buckets could not be counted exactly.
func (t Tier) Validate() error {
	return checkTier(TierSpec{Name: t.Name, Requests: t.Requests, Period: t.Period, Burst: t.Burst})
}

func checkTier(spec TierSpec) error {
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
	if _, period := tier.Reduce(); period > maxBucket/int64(spec.Burst) {
		return &InvalidError{Field: "burst", Detail: "is too large for this period to be counted exactly"}
	}
	return checkText("name", spec.Name)
}

// canonical sorts and removes repetitions, so that order in a resource means nothing. It never returns nil.
func canonical(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return append([]string{}, slices.Compact(names)...)
}

func same(row keysdb.RateTier, spec TierSpec) bool {
	owner := ""
	if row.ManagedBy != nil {
		owner = *row.ManagedBy
	}
	return int(row.Requests) == spec.Requests && row.PeriodUs == spec.Period.Microseconds() && int(row.Burst) == spec.Burst &&
		owner == spec.ManagedBy && slices.Equal(row.KeyPrefixes, spec.KeyPrefixes) && slices.Equal(row.Accounts, spec.Accounts)
}
