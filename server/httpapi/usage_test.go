package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

// usageNow is the time by the clock of these tests' developers: late on the last day of a leap year's February.
var usageNow = time.Date(2028, 2, 29, 23, 59, 59, 0, time.UTC)

func newUsageConsole(t *testing.T, environment string, meter *atomic.Pointer[usage.Meter]) *console {
	t.Helper()
	count := func(key uuid.UUID, admitted bool) {
		if m := meter.Load(); m != nil {
			m.Count(key, admitted)
		}
	}
	return newConsoleOf(t, apitest.Options{Gate: gate.Config{OnUse: count}}, func(_ *apitest.API, d *developer.Deps) {
		d.Environment, d.Now = environment, func() time.Time { return usageNow }
	})
}

func (b *browser) usage(query string) (int, map[string]any) {
	b.t.Helper()
	status, _, answer := b.do(http.MethodGet, "/v1/developer/usage"+query, "")
	return status, answer
}

func (c *console) setUsage(prefix, day string, requests, limited int) {
	c.test.Helper()
	testkit.Exec(c.test, c.Pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
		SELECT id, $2::text::date, account_id, $3, $4 FROM api_keys WHERE prefix = $1`, prefix, day, requests, limited)
}

func TestUsageIsWhatTheGateLetPassAndRefused(t *testing.T) {
	t.Parallel()
	for _, environment := range []string{"production", "sandbox"} {
		t.Run(environment, func(t *testing.T) {
			var metered atomic.Pointer[usage.Meter]
			c := newUsageConsole(t, environment, &metered)
			ada := c.signedIn("ada")
			check.NoError(t, c.Keys.ApplyTier(t.Context(), keys.TierSpec{Name: "few", Requests: 5, Period: time.Hour}))
			made := ada.make("/v1/developer/keys", `{"name":"ci"}`)
			key, prefix := textOf(made, "key"), textOf(made, "key_prefix")
			check.NoError(t, c.Keys.SetTier(t.Context(), prefix, "few"))
			meter := usage.NewMeter(c.Pool, usage.MeterConfig{Interval: time.Hour, Now: func() time.Time { return usageNow }})
			metered.Store(meter)
			statuses := map[int]int{}
			for range 8 {
				statuses[c.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + key}).status]++
			}
			check.NoError(t, errors.Join(meter.Flush(t.Context()), meter.RollUp(t.Context())))
			if statuses[http.StatusOK] != 5 || statuses[http.StatusTooManyRequests] != 3 {
				t.Fatalf("answers %v", statuses)
			}
			status, answer := ada.usage("")
			billable := map[string]int{"production": 5, "sandbox": 0}[environment]
			sums := fmt.Sprintf(`"requests":5,"rate_limited":3,"billable_requests":%d`, billable)
			want := fmt.Sprintf(`{"environment":%q,"from":"2028-01-31","to":"2028-02-29","usage":[{"day":"2028-02-29","key_prefix":%q,%s}],"total":{%s}}`,
				environment, prefix, sums, sums)
			if got, _ := json.Marshal(answer); status != http.StatusOK || !sameJSON(string(got), want) {
				t.Errorf("%d %s\nwant %s", status, got, want)
			}
		})
	}
}

func TestUsageIsOrderedAndOfTheDaysAndKeysAskedFor(t *testing.T) {
	t.Parallel()
	c := newUsageConsole(t, "production", new(atomic.Pointer[usage.Meter]))
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	newPrefix := func(b *browser) string { return textOf(b.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix") }
	first, second := newPrefix(ada), newPrefix(ada)
	if second < first {
		first, second = second, first
	}
	bobs := newPrefix(bob)
	c.setUsage(bobs, "2028-02-29", 1000, 1000)
	c.setUsage(second, "2028-02-28", 2, 0)
	c.setUsage(first, "2028-02-29", 30, 4)
	c.setUsage(second, "2028-02-29", 500, 0)
	c.setUsage(first, "2028-02-28", 7, 0)
	c.setUsage(first, "2028-01-31", 11, 0)
	c.setUsage(first, "2028-01-30", 13, 0)
	c.setUsage(first, "2027-03-01", 17, 1)
	rows := func(answer map[string]any) (list []string) {
		for _, row := range listOf(answer, "usage") {
			name := map[string]string{first: "first", second: "second"}[textOf(row, "key_prefix")]
			list = append(list, fmt.Sprintf("%s %s %v/%v", textOf(row, "day"), name, row["requests"], row["rate_limited"]))
		}
		return list
	}
	for query, want := range map[string]struct {
		rows  string
		total string
	}{
		"":                                            {"[2028-01-31 first 11/0 2028-02-28 first 7/0 2028-02-28 second 2/0 2028-02-29 first 30/4 2028-02-29 second 500/0]", "550/4/550"},
		"?from=2028-02-29":                            {"[2028-02-29 first 30/4 2028-02-29 second 500/0]", "530/4/530"},
		"?to=2028-02-28":                              {"[2028-01-30 first 13/0 2028-01-31 first 11/0 2028-02-28 first 7/0 2028-02-28 second 2/0]", "33/0/33"},
		"?from=2028-01-30&to=2028-01-30":              {"[2028-01-30 first 13/0]", "13/0/13"},
		"?from=2028-01-30&to=2028-02-29":              {"[2028-01-30 first 13/0 2028-01-31 first 11/0 2028-02-28 first 7/0 2028-02-28 second 2/0 2028-02-29 first 30/4 2028-02-29 second 500/0]", "563/4/563"},
		"?from=2027-03-01&key_prefix=" + first:        {"[2027-03-01 first 17/1 2028-01-30 first 13/0 2028-01-31 first 11/0 2028-02-28 first 7/0 2028-02-29 first 30/4]", "78/5/78"},
		"?key_prefix=" + second:                       {"[2028-02-28 second 2/0 2028-02-29 second 500/0]", "502/0/502"},
		"?from=1999-01-01&to=1999-01-31":              {"[]", "0/0/0"},
		"?from=2028-03-01&to=2028-03-31&ignored=%zz":  {"[]", "0/0/0"},
		"?from=9999-12-31&to=9999-12-31":              {"[]", "0/0/0"},
		"?from=0001-01-01&to=0001-01-31":              {"[]", "0/0/0"},
		"?%66rom=2028%2D02%2D28&to=2028-02-28&x=from": {"[2028-02-28 first 7/0 2028-02-28 second 2/0]", "9/0/9"},
	} {
		status, answer := ada.usage(query)
		total, _ := answer["total"].(map[string]any)
		sums := fmt.Sprintf("%v/%v/%v", total["requests"], total["rate_limited"], total["billable_requests"])
		if got := fmt.Sprint(rows(answer)); status != http.StatusOK || got != want.rows || sums != want.total {
			t.Errorf("%s: %d %s, total %s\nwant %s, total %s", query, status, got, sums, want.rows, want.total)
		}
	}
}

func TestWhatIsAskedOfUsage(t *testing.T) {
	t.Parallel()
	c := newUsageConsole(t, "sandbox", new(atomic.Pointer[usage.Meter]))
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	mine := textOf(ada.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix")
	bobs := textOf(bob.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix")
	for _, refused := range []struct{ query, field string }{
		{"from=", "from"},
		{"from=yesterday", "from"},
		{"from=2028-2-1", "from"},
		{"from=2028-02-30", "from"},
		{"to=2027-02-29", "to"},
		{"to=2028-02-01T00:00:00Z", "to"},
		{"to=%ff", "to"},
		{"to=" + url.QueryEscape("2028-02-01 "), "to"},
		{"to=-2028-02-01", "to"},
		{"to=0000-01-10", "to"}, // the default of from would have a negative year
		{"to=0000-12-31", "to"},
		{"from=0000-12-31&to=0001-01-01", "from"},
		{"from=2028-02-01&from=2028-02-01", "from"},
		{"from=2028-02-02&to=2028-02-01", "from"},
		{"from=2028-03-01", "from"},                                        // after today
		{"from=2028-01-29", "from"},                                        // 32 days until today
		{"from=2028-01-29&to=2028-02-29", "from"},                          // 32 days
		{"from=2027-02-28&key_prefix=" + mine, "from"},                     // 367 days
		{"from=2028-02-28&to=2028-02-29&key_prefix=" + bobs, "key_prefix"}, // another's
		{"key_prefix=service_00000000", "key_prefix"},                      // nobody's
		{"key_prefix=service_0000000g", "key_prefix"},                      // no prefix
		{"key_prefix=", "key_prefix"},
		{"key_prefix=%00", "key_prefix"},
	} {
		status, answer := ada.usage("?" + refused.query)
		if status != http.StatusBadRequest || answer["error"] != "validation_failed" || !names(answer, refused.field) {
			t.Errorf("%s: %d %v, want %s named", refused.query, status, answer, refused.field)
		}
	}
	for _, taken := range []string{"from=2028-01-30", "from=2028-01-30&to=2028-02-29", "from=2027-03-01&key_prefix=" + mine} {
		if status, answer := ada.usage("?" + taken); status != http.StatusOK {
			t.Errorf("%s: %d %v", taken, status, answer)
		}
	}
	if status, _ := c.open().usage(""); status != http.StatusUnauthorized {
		t.Errorf("without a session: %d, want 401", status)
	}
}

func TestNoDayBeforeTheFirstIsAnswered(t *testing.T) {
	t.Parallel()
	c := newUsageConsole(t, "production", new(atomic.Pointer[usage.Meter]))
	status, answer := c.signedIn("ada").usage("?to=0001-01-10")
	if from, to := textOf(answer, "from"), textOf(answer, "to"); status != http.StatusOK || from != "0001-01-01" || to != "0001-01-10" {
		t.Errorf("%d, from %s to %s", status, from, to)
	}
}

func TestMoreUsageThanOneAnswerHoldsIsRefused(t *testing.T) {
	t.Parallel()
	c := newUsageConsole(t, "production", new(atomic.Pointer[usage.Meter]))
	ada := c.signedIn("ada")
	prefix := textOf(ada.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix")
	const days = 10
	testkit.Exec(t, c.Pool, `WITH many AS (INSERT INTO api_keys (id, account_id, family_id, prefix, hash, revoked_at)
		SELECT gen_random_uuid(), $1::uuid, gen_random_uuid(), 'service_' || lpad(to_hex(i), 8, '0'), sha256(i::text::bytea), now()
		FROM set_config('examprep.bulk_changes', 'on', true), generate_series(1, $2) i RETURNING id, account_id)
		INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
		SELECT id, date '2028-02-01' + day, account_id, 1, 0 FROM many, generate_series(1, $3) day`,
		c.account(ada), usage.MaxRows/days, days)
	status, answer := ada.usage("")
	if rows := len(listOf(answer, "usage")); status != http.StatusOK || rows != usage.MaxRows {
		t.Fatalf("as much as an answer holds: %d, %d rows", status, rows)
	}
	c.setUsage(prefix, "2028-02-29", 1, 0)
	if status, answer = ada.usage(""); status != http.StatusBadRequest || answer["error"] != "validation_failed" || !names(answer, "from") {
		t.Errorf("one row more: %d, %v", status, answer["errors"])
	}
	for _, fewer := range []string{"?from=2028-02-10", "?key_prefix=" + prefix} {
		if status, _ := ada.usage(fewer); status != http.StatusOK {
			t.Errorf("%s: %d", fewer, status)
		}
	}
}
