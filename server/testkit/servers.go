package testkit

import (
	"net"
	"testing"

	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/ports"
	"examprep.dev/server/testkit/testenv"
)

// The variables with the URLs of the test servers. The user of PostgreSQL can create databases.
const (
	DatabaseVariable = testenv.Database
	RedisVariable    = testenv.Redis
)

func serverURL(t testing.TB, variable string) string {
	t.Helper()
	return testenv.Get(t, variable)
}

// RedisURL returns the URL of the test server. Tests share it; see [Redis] for names of a test's own.
func RedisURL(t testing.TB) string {
	t.Helper()
	return serverURL(t, RedisVariable)
}

// FreeAddress returns a loopback address for a server of the test. Other tests do not get its port, even while the server
// restarts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return ports.Address(t)
}

// Listen returns a listener on a free loopback port. It is closed when the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}
