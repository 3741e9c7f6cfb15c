// Package devtest gives the tests of the development environment what they start servers with.
package devtest

import (
	"net"
	"path/filepath"
	"testing"

	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/state"
)

// Supervisor supervises processes, with logs and pid files in dir, until the test ends.
func Supervisor(t testing.TB, dir string) *process.Supervisor {
	t.Helper()
	s, err := process.New(filepath.Join(dir, "log"), filepath.Join(dir, "pids"), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// FreeAddress is a loopback address that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	ports, err := state.Dir(t.TempDir()).OpenPorts()
	if err != nil {
		t.Fatal(err)
	}
	address, err := ports.Address(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		t.Fatal(err)
	}
	return address
}
