package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"examprep.dev/server/postgres"
)

func TestAMalformedURLIsNamedWithoutItsPassword(t *testing.T) {
	_, err := postgres.Open(t.Context(), "postgres://user:hunter2@localhost:port/db")
	if _, ok := errors.AsType[*postgres.URLError](err); !ok {
		t.Fatalf("got %v, want a URLError", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is in %q", err)
	}
}
