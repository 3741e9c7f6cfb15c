package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/usage"
)

// The days that one answer may span, both ends included, and what it spans where nothing is said.
const (
	maxUsageDays      = 31
	maxUsageDaysOfKey = 366 // with key_prefix
	defaultUsageDays  = 30
)

const oneDay = 24 * time.Hour

// firstDay is the earliest that is answered for, 0001-01-01: before it years are 0 or negative.
func firstDay() time.Time { return time.Time{} }

// Usage reads the usage of an account's keys; *usage.Store is one.
type Usage interface {
	Daily(ctx context.Context, query usage.Query) ([]usage.Daily, error)
}

// counts are sums of requests.
type counts struct {
	Requests    int64 `json:"requests"`
	RateLimited int64 `json:"rate_limited"`
	// BillableRequests are those of Requests that are billed: in production all, else none.
	BillableRequests int64 `json:"billable_requests"`
}

// usageOfDay is what a key was used on a UTC day.
type usageOfDay struct {
	Day    string `json:"day"`
	Prefix string `json:"key_prefix"`
	counts
}

// usageReport is the answer of getUsage, by day, then prefix.
type usageReport struct {
	Environment string       `json:"environment"`
	From        string       `json:"from"`
	To          string       `json:"to"`
	Usage       []usageOfDay `json:"usage"`
	Total       counts       `json:"total"`
}

// getUsage tells how often the account's keys were used, by day.
func (s *Server) getUsage(ctx context.Context, r *request) error {
	query, err := decodeUsageQuery(readQuery(r.http), s.developer.Now())
	if err != nil {
		return err
	}
	query.Account = r.session.AccountID
	found, err := s.developer.Usage.Daily(ctx, query)
	if is[*usage.UnknownKeyError](err) {
		return validationFailed(fieldError{"key_prefix", "must be the prefix of a key of the account"})
	}
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, newUsageReport(s.developer.Environment, query, found))
}

func newUsageReport(environment string, query usage.Query, found []usage.Daily) usageReport {
	report := usageReport{
		Environment: environment, From: query.From.Format(time.DateOnly), To: query.To.Format(time.DateOnly),
		Usage: make([]usageOfDay, len(found)),
	}
	for i, row := range found {
		of := counts{Requests: row.Requests, RateLimited: row.RateLimited}
		if environment == string(postgres.Production) {
			of.BillableRequests = row.Requests
		}
		report.Usage[i] = usageOfDay{Day: row.Day.Format(time.DateOnly), Prefix: row.KeyPrefix, counts: of}
		report.Total.Requests += of.Requests
		report.Total.RateLimited += of.RateLimited
		report.Total.BillableRequests += of.BillableRequests
	}
	return report
}

// decodeUsageQuery reads which days are asked for, and of which key.
func decodeUsageQuery(asked *query, now time.Time) (query usage.Query, err error) {
	day := func(name string, target *time.Time) {
		asked.match(name, "must be a day from 0001-01-01 on, as YYYY-MM-DD", func(value string) bool {
			parsed, err := time.Parse(time.DateOnly, value)
			if err != nil || parsed.Before(firstDay()) {
				return false
			}
			*target = parsed
			return true
		})
	}
	query.To = now.UTC().Truncate(oneDay)
	day("from", &query.From)
	day("to", &query.To)
	query.KeyPrefix = asked.match("key_prefix", notKeyPrefix, keys.IsPrefix)
	if err := asked.err(); err != nil {
		return query, err
	}
	if _, given := asked.values["from"]; !given {
		query.From = query.To.AddDate(0, 0, 1-defaultUsageDays)
		if query.From.Before(firstDay()) {
			query.From = firstDay()
		}
	}
	most, hint := maxUsageDays, fmt.Sprintf(", or %d with key_prefix", maxUsageDaysOfKey)
	if query.KeyPrefix != "" {
		most, hint = maxUsageDaysOfKey, ""
	}
	switch {
	case query.From.After(query.To):
		return query, validationFailed(fieldError{"from", "must not lie after to, which is today unless it is given"})
	case query.From.Before(query.To.AddDate(0, 0, 1-most)):
		return query, validationFailed(fieldError{"from", fmt.Sprintf("and to must span at most %d days%s", most, hint)})
	}
	return query, nil
}
