package send

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterIsReadWithinBounds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-3": 0, "soon": 0, "99999999": MaxRetryAfter,
		"9223372036854775808": MaxRetryAfter, "99999999999999999999999": MaxRetryAfter, "-9223372036854775809": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := parseRetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func FuzzRetryAfterStaysWithinBounds(f *testing.F) {
	for _, seed := range []string{"", "7", "-1", "9223372036854775808", "Thu, 01 Jan 2026 00:01:00 GMT", "1e9"} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		asked := parseRetryAfter(http.Header{"Retry-After": {value}}, now)
		if asked < 0 || asked > MaxRetryAfter {
			t.Fatalf("%q: asked %s", value, asked)
		}
	})
}
