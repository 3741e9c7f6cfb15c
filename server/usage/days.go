package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres/usagedb"
)

// Day is the usage of all keys of an account on one UTC day.
type Day struct {
	Day time.Time // its midnight
	// Requests were admitted; RateLimited were refused because a key's allowance was used up.
	Requests, RateLimited int64
}

// Days returns the account's usage on each of the n UTC days that end with the day of last, in their order. The requests of the last
// minute may be missing. If these days have more than [MaxRows], of a key and a day each, it returns a *TooManyRowsError.
func (s *Store) Days(ctx context.Context, account uuid.UUID, last time.Time, n int) ([]Day, error) {
	last = last.UTC().Truncate(24 * time.Hour)
	days := make([]Day, n)
	for i := range days {
		days[i].Day = last.AddDate(0, 0, i+1-n)
	}
	first := last.AddDate(0, 0, 1-n)
	if _, err := s.count(ctx, Query{Account: account, From: first, To: last}); err != nil {
		return nil, err
	}
	rows, err := s.queries.UsageByDay(ctx, usagedb.UsageByDayParams{AccountID: account, First: first, Last: last})
	if err != nil {
		return nil, fmt.Errorf("read usage by day: %w", err)
	}
	next := 0
	for _, row := range rows {
		for !days[next].Day.Equal(row.Day) {
			next++
		}
		days[next] = Day(row)
	}
	return days, nil
}
