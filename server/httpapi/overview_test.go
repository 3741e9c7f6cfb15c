package httpapi_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
)

func (b *browser) overview() map[string]any {
	b.t.Helper()
	status, _, got := b.do(http.MethodGet, "/v1/developer/overview", "")
	check.Equal(b.t, status, http.StatusOK, "overview: %v", got)
	return got
}

func partOf(document map[string]any, name string) map[string]any {
	part, _ := document[name].(map[string]any)
	return part
}

func TestOverviewOfANewAccount(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	_, _, session := ada.do(http.MethodGet, sessionPath, "")
	before := time.Now().UTC()
	got := ada.overview()
	days := listOf(got, "requests")
	delete(got, "requests")
	want := map[string]any{
		"environment": "sandbox", "account": session["account"],
		"tier":     map[string]any{"name": "default", "requests": 120.0, "period_sec": 60.0, "burst": 120.0},
		"keys":     map[string]any{"active": 0.0, "expiring": []any{}},
		"webhooks": map[string]any{"healthy": 0.0, "failing": []any{}, "disabled": []any{}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	check.Equal(t, len(days), 30, "days")
	last, err := time.Parse(time.DateOnly, textOf(days[29], "date"))
	if after := time.Now().UTC(); err != nil || last.Before(before.Truncate(24*time.Hour)) || last.After(after) {
		t.Errorf("the last day is %v, %v, want today", days[29], err)
	}
	for i, day := range days {
		date := last.AddDate(0, 0, i-29).Format(time.DateOnly)
		if !reflect.DeepEqual(day, map[string]any{"date": date, "allowed": 0.0, "limited": 0.0}) {
			t.Errorf("day %d is %v, want %s without requests", i, day, date)
		}
	}
}

// TestOverviewShowsTheAccountsOwn has another account with the same things.
func TestOverviewShowsTheAccountsOwn(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	adas, bobs := c.belongings(ada), c.belongings(bob)
	today := time.Now().UTC().Format(time.DateOnly)
	for _, things := range []map[string]string{adas, bobs} {
		c.setUsage(things["key_prefix"], today, 7, 2)
		testkit.Exec(t, c.Pool, "UPDATE api_keys SET expires_at = now() + interval '1 day' WHERE prefix = $1", things["key_prefix"])
		testkit.Exec(t, c.Pool, "UPDATE webhook_endpoints SET failing_since = now(), last_status = 503, last_failure = 'status' WHERE id = $1", things["id"])
	}
	testkit.Exec(t, c.Pool, "UPDATE key_usage SET last_used_at = now()")
	_, _, session := ada.do(http.MethodGet, sessionPath, "")
	tier := keys.TierSpec{Name: "gold", Requests: 600, Period: time.Minute, Burst: 50, Accounts: []string{textOf(session, "account")}}
	check.NoError(t, c.Keys.ApplyTier(t.Context(), tier))
	got := ada.overview()
	if days := listOf(got, "requests"); !reflect.DeepEqual(days[len(days)-1], map[string]any{"date": today, "allowed": 7.0, "limited": 2.0}) {
		t.Errorf("the last days are %v", days[28:])
	}
	check.Equal(t, textOf(partOf(got, "tier"), "name"), "gold", "tier")
	expiring := listOf(partOf(got, "keys"), "expiring")
	if partOf(got, "keys")["active"] != 1.0 || len(expiring) != 1 || expiring[0]["key_prefix"] != adas["key_prefix"] || expiring[0]["last_used_at"] == nil {
		t.Errorf("the keys are %v", got["keys"])
	}
	failing := listOf(partOf(got, "webhooks"), "failing")
	if len(failing) != 1 || failing[0]["id"] != adas["id"] || failing[0]["pending"] != 1.0 || failing[0]["last_failure"] != "status" {
		t.Errorf("the webhooks are %v", got["webhooks"])
	}
	testkit.Exec(t, c.Pool, "UPDATE rate_tiers SET requests = 2000000000 WHERE name = 'gold'") // more than a tier can have
	if unreadable := ada.overview(); unreadable["tier"] != nil {
		t.Errorf("a tier that cannot be read is shown as %v", unreadable["tier"])
	}
}

// TestOverviewOfTooMuchUsageHasNoRequests: the rest is shown.
func TestOverviewOfTooMuchUsageHasNoRequests(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada := c.signedIn("ada")
	testkit.Exec(t, c.Pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
		SELECT gen_random_uuid(), (now() AT TIME ZONE 'UTC')::date, $1, 1, 0 FROM generate_series(0, $2::int)`, c.account(ada), usage.MaxRows)
	got := ada.overview()
	if requests, shown := got["requests"]; shown || got["keys"] == nil || got["webhooks"] == nil {
		t.Errorf("requests are %v in %v", requests, got)
	}
}
