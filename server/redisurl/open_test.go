package redisurl_test

import (
	"strings"
	"testing"

	"examprep.dev/server/redisurl"
	"examprep.dev/server/testkit/check"
)

func TestParseReadsEachTopology(t *testing.T) {
	for name, c := range map[string]struct {
		url     string
		addrs   string
		master  string
		cluster bool
		db      int
	}{
		"one node":         {"redis://127.0.0.1:6379/3", "127.0.0.1:6379", "", false, 3},
		"sentinel":         {"sentinel://:p@a:26379,b:26379/mymaster?db=2", "a:26379,b:26379", "mymaster", false, 2},
		"cluster":          {"cluster://a:7000,b:7001", "a:7000,b:7001", "", true, 0},
		"node without TLS": {"redis://cache:6379", "cache:6379", "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := redisurl.Parse(c.url)
			check.NoError(t, err)
			if a := strings.Join(got.Addrs, ","); a != c.addrs || got.MasterName != c.master || got.IsClusterMode != c.cluster || got.DB != c.db {
				t.Errorf("got %s master=%q cluster=%v db=%d", a, got.MasterName, got.IsClusterMode, got.DB)
			}
		})
	}
}

func TestAMistakeIsNamedWithoutThePassword(t *testing.T) {
	for _, url := range []string{"http://:hunter2@x", "sentinel://:hunter2@a:1", "redis://:hunter2@a:1/x/y", "redis://:hunter2@a:1:2\x7f"} {
		_, err := redisurl.Parse(url)
		if err == nil {
			t.Errorf("%q: no error", url)
			continue
		}
		if !strings.HasPrefix(err.Error(), "REDIS_URL: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %q", url, err)
		}
	}
}
