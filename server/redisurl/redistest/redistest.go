// Package redistest connects tests to the real Redis that EXAMPREP_TEST_REDIS_URL names, in the environment or in
// .dev/test.env (see testenv). It fails the test, never skips it, when there is none.
package redistest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/redisurl"
	"examprep.dev/server/testkit/testenv"
)

// ServerVariable names the variable that holds the test server's URL.
const ServerVariable = testenv.Redis

// ServerURL returns the test server's URL.
func ServerURL(t testing.TB) string {
	t.Helper()
	return testenv.Get(t, ServerVariable)
}

// New returns a client and a prefix for names that no other test uses.
func New(t testing.TB) (client redis.UniversalClient, prefix string) {
	t.Helper()
	client, err := redisurl.Open(ServerURL(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, "test:" + uuid.NewString() + ":"
}
