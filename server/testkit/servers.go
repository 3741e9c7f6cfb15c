package testkit

import (
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
)

// The variables with the URLs of the test servers. The user of PostgreSQL can create databases.
const (
	DatabaseVariable = "EXAMPREP_TEST_DATABASE_URL"
	RedisVariable    = "EXAMPREP_TEST_REDIS_URL"
)

// serverURL returns the URL in one of the variables of the test servers. It fails the test if the variable is unset.
func serverURL(t testing.TB, variable string) string {
	t.Helper()
	server := os.Getenv(variable)
	if server == "" {
		t.Fatalf("%s is not set: run the tests by `make test` (PKG=./server/... for a part of them)", variable)
	}
	return server
}

// RedisURL returns the URL of the test server. Tests share it; see [Redis] for names of a test's own.
func RedisURL(t testing.TB) string {
	t.Helper()
	return serverURL(t, RedisVariable)
}

// The system gives outgoing connections, and listeners on port 0, ports above this range. hack/dev uses ports above it too.
const lowestPort, highestPort = 10000, 20000

// FreeAddress returns a loopback address for a server of the test. Other tests do not get its port, even while the server
// restarts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var address string
	Eventually(t, "a port is free", func() bool {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort)))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err == nil && listener.Close() == nil
	})
	return address
}

// Listen returns a listener on a free loopback port. It is closed when the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}
