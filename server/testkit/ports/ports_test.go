package ports_test

import (
	"net"
	"runtime"
	"testing"

	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/ports"
)

func TestReservedPortIsForTheServersOfItsTest(t *testing.T) {
	address := ports.Address(t)
	for range 2 { // started, and started again
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		check.NoError(t, err)
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		check.NoError(t, err)
		check.NoError(t, conn.Close())
		check.NoError(t, listener.Close())
	}
}

// TestReservedPortsAreGivenToNobody takes more ports than a kernel has to give, in ten turns, while one is reserved.
func TestReservedPortsAreGivenToNobody(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux keeps the promise")
	}
	const turns, many = 10, 4000
	reserved := ports.Address(t)
	for range turns {
		listeners := make([]net.Listener, 0, many)
		for range many {
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				break // as many files as this process may open
			}
			listeners = append(listeners, listener)
			if listener.Addr().String() == reserved {
				t.Error("the kernel gave a reserved port away")
			}
		}
		for _, listener := range listeners {
			_ = listener.Close()
		}
	}
}
