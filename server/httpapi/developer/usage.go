package developer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
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

// rowMemory is the memory that a row of a report takes, in bytes: as it is read, in the report, and as JSON.
const rowMemory = 280

// Usage reads the usage of an account's keys; *usage.Store is one.
type Usage interface {
	UsageByDay
	Daily(ctx context.Context, query usage.Query) ([]usage.Daily, error)
}

type usageHandlers struct {
	store       Usage
	environment string
	now         func() time.Time
}

func (h *usageHandlers) routes() []endpoint.Route {
	route := session(fasthttp.MethodGet, "/v1/developer/usage", "getUsage", endpoint.Time, h.get)
	route.Role = accounts.Viewer
	route.Reserves = true
	return []endpoint.Route{route}
}

// counts are sums of requests.
type counts struct {
	Requests    int64 `json:"requests"`
	RateLimited int64 `json:"rate_limited"`
	// BillableRequests equals Requests in production, else it is 0.
	BillableRequests int64 `json:"billable_requests"`
}

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

func (h *usageHandlers) get(ctx context.Context, r *endpoint.Request) error {
	query, err := decodeUsageQuery(r.Query(), h.now())
	if err != nil {
		return err
	}
	query.Account = r.Session.AccountID
	query.Reserve = func(rows int) error { return r.Reserve(rows * rowMemory) }
	found, err := h.store.Daily(ctx, query)
	if _, unknown := errors.AsType[*usage.UnknownKeyError](err); unknown {
		return apierror.Invalid(apierror.Field{Name: "key_prefix", Detail: "must be the prefix of a key of the account"})
	}
	return r.OK(newUsageReport(h.environment, query, found), err)
}

func newUsageReport(environment string, query usage.Query, found []usage.Daily) usageReport {
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	report := usageReport{Environment: environment, From: day(query.From), To: day(query.To)}
	for _, row := range found {
		of := counts{Requests: row.Requests, RateLimited: row.RateLimited}
		if environment == string(postgres.Production) {
			of.BillableRequests = row.Requests
		}
		report.Usage = append(report.Usage, usageOfDay{day(row.Day), row.KeyPrefix, of})
		report.Total.Requests += of.Requests
		report.Total.RateLimited += of.RateLimited
		report.Total.BillableRequests += of.BillableRequests
	}
	return report
}

// decodeUsageQuery reads which days are asked for, and of which key.
func decodeUsageQuery(asked *codec.Fields, now time.Time) (query usage.Query, _ error) {
	day := func(name string, target *time.Time) (given bool) {
		return asked.Match(name, "must be a day from 0001-01-01 on, as YYYY-MM-DD", func(value string) bool {
			parsed, err := time.Parse(time.DateOnly, value)
			*target = parsed
			return err == nil && parsed.Year() > 0
		}) != ""
	}
	query.To = now.UTC().Truncate(24 * time.Hour)
	fromGiven := day("from", &query.From)
	day("to", &query.To)
	query.KeyPrefix = asked.Match("key_prefix", notKeyPrefix, keys.IsPrefix)
	if err := asked.Check(); err != nil {
		return query, err
	}
	most, hint := maxUsageDays, fmt.Sprintf(", or %d with key_prefix", maxUsageDaysOfKey)
	if query.KeyPrefix != "" {
		most, hint = maxUsageDaysOfKey, ""
	}
	since := func(days int) time.Time { return query.To.AddDate(0, 0, 1-days) }
	switch {
	case !fromGiven && since(defaultUsageDays).Year() > 0: // else from 0001-01-01 on
		query.From = since(defaultUsageDays)
	case query.From.After(query.To):
		return query, apierror.Invalid(apierror.Field{Name: "from", Detail: "must not be after \"to\" (default: today)"})
	case query.From.Before(since(most)):
		return query, apierror.Invalid(apierror.Field{Name: "from", Detail: fmt.Sprintf("and to must span at most %d days%s", most, hint)})
	}
	return query, nil
}
