package servers

import "testing"

// Scratch returns a temporary directory that other users may pass through.
func Scratch(t *testing.T) string {
	t.Helper()
	return scratch(t)
}
