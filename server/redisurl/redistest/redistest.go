// Package redistest connects tests to the real Redis that EXAMPREP_TEST_REDIS_URL names (`make test` sets it). It fails
// the test, never skips it, when there is none.
package redistest

import (
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/redisurl"
)

// ServerVariable names the variable that holds the test server's URL.
const ServerVariable = "EXAMPREP_TEST_REDIS_URL"

// New returns a client and a prefix for names that no other test uses.
func New(t testing.TB) (client redis.UniversalClient, prefix string) {
	t.Helper()
	url := os.Getenv(ServerVariable)
	if url == "" {
		t.Fatalf("%s is not set: run the tests by `make test` (PKG=./server/... for a part of them)", ServerVariable)
	}
	client, err := redisurl.Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, "test:" + uuid.NewString() + ":"
}
