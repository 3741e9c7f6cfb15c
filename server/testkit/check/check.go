// Package check ends a test at the first error that it does not expect.
package check

// T is the part of testing.TB that a check needs; rapid's T has it too.
type T interface {
	Helper()
	Fatal(args ...any)
}

// NoError ends the test if err is not nil.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
