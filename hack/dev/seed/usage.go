package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/usage"
)

// usageDays is how many days before today have requests.
const usageDays = 7

// ensureUsage counts requests on each of the last days on which the account made none.
func (s *seeder) ensureUsage(ctx context.Context) error {
	days, err := s.unusedDays(ctx)
	if err != nil || len(days) == 0 {
		return err
	}
	keys, err := s.keys(ctx)
	if err != nil {
		return err
	}
	var at time.Time
	meter := usage.NewMeter(s.pool, usage.MeterConfig{Now: func() time.Time { return at }})
	for _, date := range days {
		at = date.Add(day / 2)
		for position, want := range samples() {
			used, ok := find(keys, func(k key) bool { return k.Name == want.name && k.livedAt(at) })
			if !ok {
				continue
			}
			admitted, limited := requestsOn(position, want.requests, date)
			for n := range admitted + limited {
				meter.Count(used.ID, n < admitted)
			}
		}
	}
	if err := meter.Flush(ctx); err != nil {
		return err
	}
	s.madef("usage (%d days)", len(days))
	return poll(ctx, "the usage is counted", func() (bool, error) {
		if err := meter.RollUp(ctx); err != nil {
			return false, err
		}
		left, err := s.unusedDays(ctx) // another process can be rolling up at the moment
		return len(left) == 0, err
	})
}

// livedAt reports whether the key was accepted at a time.
func (k key) livedAt(at time.Time) bool {
	return k.CreatedAt.Before(at) && (k.RevokedAt == nil || at.Before(*k.RevokedAt))
}

// unusedDays returns those of the last days on which no key of the account was used. A day begins at midnight UTC.
func (s *seeder) unusedDays(ctx context.Context) ([]time.Time, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT d.day FROM (SELECT $2::date - n AS day FROM generate_series(1, $3::int) n) d
		WHERE NOT EXISTS (SELECT FROM key_usage u WHERE u.account_id = $1 AND u.day = d.day)
		ORDER BY d.day`, s.accountID, s.now().UTC(), usageDays)
	days, err := pgx.CollectRows(rows, pgx.RowTo[time.Time]) // reports the query's error as well
	if err != nil {
		return nil, fmt.Errorf("read the usage: %w", err)
	}
	return days, nil
}

// requestsOn returns how many requests a key makes on a date, and how many more are refused for its rate. The same key and
// date always have the same numbers: fewer at weekends, and refusals on Mondays and Thursdays.
func requestsOn(position, typical int, date time.Time) (admitted, limited int) {
	const swing = 23 // in percent, around the typical number
	number := int(date.Unix() / int64(day.Seconds()))
	percent := 100 - swing/2 + (number*7+position*5)%swing
	switch date.Weekday() {
	case time.Saturday, time.Sunday:
		percent /= 2
	case time.Monday, time.Thursday:
		limited = typical / 30
	default:
	}
	return typical * percent / 100, limited
}
