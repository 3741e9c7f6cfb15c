package ports

import (
	"net"
	"strconv"
	"testing"
)

// Reserve returns a port of 127.0.0.1 that is the test's until it ends.
func Reserve(t testing.TB) int {
	t.Helper()
	port, release, err := reserve()
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	t.Cleanup(release)
	return port
}

// Address returns the address of a port on 127.0.0.1 that is the test's until it ends.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Reserve(t)))
}
