package testkit

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"examprep.dev/server/testkit/check"
)

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	check.NoError(t, err)
	return content
}

// WriteFile writes a file that only its owner can read.
func WriteFile(t testing.TB, path string, content []byte) {
	t.Helper()
	check.NoError(t, os.WriteFile(path, content, 0o600))
}

// Decode parses JSON.
func Decode(t T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// Encode returns a value as JSON.
func Encode(t T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	check.NoError(t, err)
	return text
}

// Size returns the number in an environment variable that `make soak` sets. Without it, the result is otherwise.
func Size(t testing.TB, variable string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	check.NoErrorf(t, err, "%s", variable)
	return n
}

// Duration is Size for a duration.
func Duration(t testing.TB, variable string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	check.NoErrorf(t, err, "%s", variable)
	return d
}
