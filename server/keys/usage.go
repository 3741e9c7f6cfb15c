package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/keysdb"
)

// MaxUsage is how many [DailyUsage] one call returns.
const MaxUsage = 50_000

// UsageQuery asks for an account's usage.
type UsageQuery struct {
	Account uuid.UUID
	// From and To are UTC days, both included; their time of day does not count.
	From, To time.Time
	// KeyPrefix names one key of the account; empty for all of them.
	KeyPrefix string
}

// DailyUsage is what one key was used on one UTC day.
type DailyUsage struct {
	Day       time.Time // its midnight
	KeyPrefix string
	// Requests were admitted; RateLimited were refused because the key's allowance was used up.
	Requests, RateLimited int64
}

// Usage returns the account's usage by day, then prefix, without the days on which a key was not used. What the API pods
// counted in the last minute may be missing still. A prefix that is not the account's is an *UnknownKeyError, more than
// [MaxUsage] a *TooMuchUsageError.
func (s *Store) Usage(ctx context.Context, query UsageQuery) ([]DailyUsage, error) {
	if query.KeyPrefix != "" {
		return s.usageOfKey(ctx, query)
	}
	rows, err := s.queries.UsageOfAccount(ctx, keysdb.UsageOfAccountParams{
		AccountID: query.Account, First: query.From, Last: query.To, Most: MaxUsage + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	if len(rows) > MaxUsage {
		return nil, &TooMuchUsageError{Most: MaxUsage}
	}
	list := make([]DailyUsage, len(rows))
	for i, row := range rows {
		list[i] = DailyUsage{Day: row.Day, KeyPrefix: row.Prefix, Requests: row.Requests, RateLimited: row.RateLimited}
	}
	return list, nil
}

func (s *Store) usageOfKey(ctx context.Context, query UsageQuery) ([]DailyUsage, error) {
	if !IsPrefix(query.KeyPrefix) {
		return nil, &UnknownKeyError{Prefix: query.KeyPrefix}
	}
	key, err := s.queries.KeyOfAccount(ctx, keysdb.KeyOfAccountParams{Prefix: query.KeyPrefix, AccountID: query.Account})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &UnknownKeyError{Prefix: query.KeyPrefix}
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	rows, err := s.queries.UsageOfKey(ctx, keysdb.UsageOfKeyParams{KeyID: key, First: query.From, Last: query.To})
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	list := make([]DailyUsage, len(rows))
	for i, row := range rows {
		list[i] = DailyUsage{Day: row.Day, KeyPrefix: query.KeyPrefix, Requests: row.Requests, RateLimited: row.RateLimited}
	}
	return list, nil
}
