package testkit

import (
	"os"
	"testing"
)

// SoakVariable is set to 1 by make soak and make soak-short.
const SoakVariable = "EXAMPREP_TEST_SOAK"

// Soak skips a test of random faults or of production's time limits, which runs alone on a machine: in make soak and
// make soak-short.
func Soak(t testing.TB) {
	t.Helper()
	if os.Getenv(SoakVariable) != "1" {
		t.Skip("it depends on the machine's speed: run make soak-short")
	}
}
