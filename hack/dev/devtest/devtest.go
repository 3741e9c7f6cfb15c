// Package devtest gives the tests of the development environment what they start servers with.
package devtest

import (
	"net"
	"path/filepath"
	"testing"

	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit/check"
)

// Supervisor supervises processes, with logs and pid files in dir, until the test ends.
func Supervisor(t testing.TB, dir string) *process.Supervisor {
	t.Helper()
	s, err := process.New(filepath.Join(dir, "log"), filepath.Join(dir, "pids"), t.Logf)
	check.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// FreeAddress returns a loopback address on which no process listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	ports, err := state.Dir(t.TempDir()).OpenPorts()
	check.NoError(t, err)
	address, err := ports.Address(t.Context(), t.Name())
	check.NoError(t, err)
	_, _, err = net.SplitHostPort(address)
	check.NoError(t, err)
	return address
}
