// Package check reports what a test does not expect.
package check

import (
	"fmt"
	"slices"
	"strings"
)

// T is the part of testing.TB that the checks need; rapid's T has it too.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// NoError ends the test if err is not nil.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NoErrorf ends the test if err is not nil. The format and its arguments say what failed.
func NoErrorf(t T, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Sprintf(format, args...) + ": " + err.Error())
	}
}

// Succeeds reports err if it is not nil. The format and its arguments say what failed.
func Succeeds(t T, err error, format string, args ...any) { //nolint:goprintffuncname // every check takes a message
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// Equal reports got if it is not want. The format and its arguments say what got is.
func Equal[V comparable](t T, got, want V, format string, args ...any) { //nolint:goprintffuncname // every check takes a message
	t.Helper()
	if got == want {
		return
	}
	subject := fmt.Sprintf(format, args...)
	if _, isText := any(got).(string); isText {
		t.Errorf("%s: got %q, want %q", subject, got, want)
	} else {
		t.Errorf("%s: got %+v, want %+v", subject, got, want)
	}
}

// Slices reports got if it has not the elements of want.
func Slices[E comparable](t T, got, want []E, format string, args ...any) { //nolint:goprintffuncname // every check takes a message
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// Contains reports a text that lacks part. subject says what the text is.
func Contains(t T, text, part, subject string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: got %q, which lacks %q", subject, text, part)
	}
}
