package httpapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// TestUnavailableGateTellsTheAllowance makes both stores unreachable. A key that the pod does not know gets the allowance of
// the client's address.
func TestUnavailableGateTellsTheAllowance(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Gate: gate.Config{Anonymous: keys.Tier{Requests: 77, Period: time.Hour, Burst: 77}}})
	list := func(key string) response {
		return a.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + key})
	}
	if got := list(unissuedKey); got.status != http.StatusUnauthorized {
		t.Fatalf("before: %d %s", got.status, got.body)
	}
	testkit.CutOff(t, a.Pool)
	check.NoError(t, a.Redis.Close())
	a.Clock.Pass(3 * time.Second) // the lease on the directory of keys ends
	check.Equal(t, list(a.Key).status, http.StatusServiceUnavailable, "status of a known key")
	got := list(unissuedKey)
	if got.status != http.StatusServiceUnavailable || got.code(t) != "service_unavailable" {
		t.Errorf("%d %s", got.status, got.body)
	}
	for name, want := range map[string]string{
		"RateLimit-Limit": "77", "RateLimit-Policy": "77;w=3600",
	} {
		check.Equal(t, got.header.Get(name), want, "%s", name)
	}
	if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
}
