package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/usagedb"
)

// MaxRows is the maximum number of [Daily] that one call returns.
const MaxRows = 50_000

// Query asks for an account's usage.
type Query struct {
	Account   uuid.UUID
	From, To  time.Time // UTC days, both included; their time of day is ignored
	KeyPrefix string    // names one key of the account; empty for all of them
	// Reserve makes room for a number of rows before they are read. The query returns its error. nil: not called.
	Reserve func(rows int) error
}

// Daily is the usage of one key on one UTC day.
type Daily struct {
	Day       time.Time // its midnight
	KeyPrefix string
	// Requests were admitted; RateLimited were refused because the key's allowance was used up.
	Requests, RateLimited int64
}

// UnknownKeyError reports that the account has no key with this prefix.
type UnknownKeyError struct{}

func (*UnknownKeyError) Error() string { return "the account has no key with this prefix" }

// TooManyRowsError reports that a query matches more than [MaxRows], of a key and a day each.
type TooManyRowsError struct{}

func (*TooManyRowsError) Error() string { return "the query matches too many rows of usage" }

// Store reads the usage of keys.
type Store struct{ queries *usagedb.Queries }

// NewStore returns a store that reads from db.
func NewStore(db usagedb.DBTX) *Store { return &Store{queries: usagedb.New(db)} }

// Daily returns the account's usage by day, then prefix, without the days on which a key was not used. The requests of
// the last minute may be missing. A prefix that is not the account's is an *UnknownKeyError, more than [MaxRows] a
// *TooManyRowsError.
func (s *Store) Daily(ctx context.Context, query Query) ([]Daily, error) {
	if query.Reserve != nil {
		count, err := s.count(ctx, query)
		if err != nil {
			return nil, err
		}
		if err := query.Reserve(count); err != nil {
			return nil, err
		}
	}
	rows, err := s.queries.DailyUsage(ctx, usagedb.DailyUsageParams{
		KeyPrefix: query.KeyPrefix, AccountID: query.Account, First: query.From, Last: query.To, Most: MaxRows + 1,
	})
	known := query.KeyPrefix == "" || len(rows) > 0
	if err == nil && !known {
		known, err = s.queries.AccountHasKey(ctx, usagedb.AccountHasKeyParams{KeyPrefix: query.KeyPrefix, AccountID: query.Account})
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read usage: %w", err)
	case !known:
		return nil, &UnknownKeyError{}
	case len(rows) > MaxRows:
		return nil, &TooManyRowsError{}
	}
	list := make([]Daily, len(rows))
	for i, row := range rows {
		list[i] = Daily(row)
	}
	return list, nil
}

// count returns the number of rows that match a query, or a *TooManyRowsError for more than [MaxRows].
func (s *Store) count(ctx context.Context, query Query) (int, error) {
	count, err := s.queries.CountDailyUsage(ctx, usagedb.CountDailyUsageParams{
		KeyPrefix: query.KeyPrefix, AccountID: query.Account, First: query.From, Last: query.To, Most: MaxRows + 1,
	})
	if err != nil {
		return 0, fmt.Errorf("count usage: %w", err)
	}
	if count > MaxRows {
		return 0, &TooManyRowsError{}
	}
	return int(count), nil
}
