package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// TestTheHeadersShowTheTierFromItsChangeOn: what was taken stays taken.
func TestTheHeadersShowTheTierFromItsChangeOn(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	key := a.NewKey("acme", keys.TierSpec{Requests: 100, Period: time.Hour})
	for _, step := range []struct {
		name                     string
		requests                 int
		period                   time.Duration
		limit, remaining, policy string
	}{
		{"as issued", 0, 0, "100", "99", "100;w=3600"},
		{"raised", 5000, 24 * time.Hour, "5000", "4998", "5000;w=86400"},
		{"lowered", 30, time.Hour, "30", "27", "30;w=3600"},
	} {
		if step.requests > 0 {
			tier := keys.TierSpec{Name: "acme", Requests: step.requests, Period: step.period, Accounts: []string{"acme"}}
			check.NoError(t, a.Keys.ApplyTier(t.Context(), tier))
		}
		got := a.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + key})
		for name, want := range map[string]string{
			"RateLimit-Limit": step.limit, "RateLimit-Remaining": step.remaining, "RateLimit-Policy": step.policy,
		} {
			if header := got.header.Get(name); got.status != http.StatusOK || header != want {
				t.Errorf("%s: %d with %s: %s, want %s", step.name, got.status, name, header, want)
			}
		}
	}
}
