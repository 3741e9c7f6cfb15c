package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
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
	found, err := s.developer.Keys.Usage(ctx, query)
	if is[*keys.UnknownKeyError](err) {
		return validationFailed(fieldError{"key_prefix", "must be the prefix of a key of the account"})
	}
	if err != nil {
		return err
	}
	return writeValue(r.http, fasthttp.StatusOK, newUsageReport(s.developer.Environment, query, found))
}

func newUsageReport(environment string, query keys.UsageQuery, found []keys.DailyUsage) usageReport {
	report := usageReport{
		Environment: environment, From: query.From.Format(time.DateOnly), To: query.To.Format(time.DateOnly),
		Usage: make([]usageOfDay, len(found)),
	}
	for i, usage := range found {
		of := counts{Requests: usage.Requests, RateLimited: usage.RateLimited}
		if environment == string(postgres.Production) {
			of.BillableRequests = usage.Requests
		}
		report.Usage[i] = usageOfDay{Day: usage.Day.Format(time.DateOnly), Prefix: usage.KeyPrefix, counts: of}
		report.Total.Requests += of.Requests
		report.Total.RateLimited += of.RateLimited
		report.Total.BillableRequests += of.BillableRequests
	}
	return report
}

// decodeUsageQuery reads which days are asked for, and of which key.
func decodeUsageQuery(asked *query, now time.Time) (usage keys.UsageQuery, err error) {
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
	usage.To = now.UTC().Truncate(oneDay)
	day("from", &usage.From)
	day("to", &usage.To)
	usage.KeyPrefix = asked.match("key_prefix", notKeyPrefix, keys.IsPrefix)
	if err := asked.err(); err != nil {
		return usage, err
	}
	if _, given := asked.values["from"]; !given {
		usage.From = usage.To.AddDate(0, 0, 1-defaultUsageDays)
		if usage.From.Before(firstDay()) {
			usage.From = firstDay()
		}
	}
	most, hint := maxUsageDays, fmt.Sprintf(", or %d with key_prefix", maxUsageDaysOfKey)
	if usage.KeyPrefix != "" {
		most, hint = maxUsageDaysOfKey, ""
	}
	switch {
	case usage.From.After(usage.To):
		return usage, validationFailed(fieldError{"from", "must not lie after to, which is today unless it is given"})
	case usage.From.Before(usage.To.AddDate(0, 0, 1-most)):
		return usage, validationFailed(fieldError{"from", fmt.Sprintf("and to must span at most %d days%s", most, hint)})
	}
	return usage, nil
}
