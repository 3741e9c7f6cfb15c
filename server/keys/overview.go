package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/keysdb"
)

const (
	// ExpiresSoon is how long before its end a key is in an Overview.
	ExpiresSoon = 14 * 24 * time.Hour
	// MaxExpiring is how many such keys an Overview has at most.
	MaxExpiring = 50
)

// Overview summarizes an account's keys.
type Overview struct {
	// Tier is the one of a key that the account creates; nil if it cannot be read.
	Tier *Tier
	// Active is the number of keys that are neither revoked nor expired.
	Active int
	// Expiring are the active keys that expire within ExpiresSoon and have no successor, the next first, at most MaxExpiring.
	Expiring []ExpiringKey
}

// ExpiringKey is a key that expires soon.
type ExpiringKey struct {
	Prefix, Name string
	ExpiresAt    time.Time
	LastUsedAt   *time.Time // nil: never
}

// Overview returns the overview of an account's keys.
func (s *Store) Overview(ctx context.Context, account uuid.UUID) (Overview, error) {
	tiers, err := ReadTiers(ctx, s.queries)
	if err != nil {
		return Overview{}, err
	}
	active, err := s.queries.CountActiveKeys(ctx, keysdb.CountActiveKeysParams{AccountID: account})
	if err != nil {
		return Overview{}, fmt.Errorf("count active keys: %w", err)
	}
	rows, err := s.queries.ExpiringKeys(ctx, keysdb.ExpiringKeysParams{Account: account, Seconds: ExpiresSoon.Seconds(), Most: MaxExpiring})
	if err != nil {
		return Overview{}, fmt.Errorf("read expiring keys: %w", err)
	}
	overview := Overview{Tier: tiers.ForNewKey(account), Active: int(active)}
	for _, row := range rows {
		overview.Expiring = append(overview.Expiring, ExpiringKey{
			Prefix: row.Prefix, Name: row.Name, ExpiresAt: *row.ExpiresAt, LastUsedAt: row.LastUsedAt,
		})
	}
	return overview, nil
}
