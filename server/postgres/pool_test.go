package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/postgrestest"
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

func TestAPoolsSizeIsTheURLsOrEnoughToShareCommits(t *testing.T) {
	address := postgrestest.URL(t)
	for suffix, want := range map[string]int32{"": 20, "&pool_max_conns=3": 3} {
		pool, err := postgres.Open(t.Context(), address+suffix)
		if err != nil {
			t.Fatal(err)
		}
		got := pool.Config().MaxConns
		pool.Close()
		if got < want || suffix != "" && got != want {
			t.Errorf("%q: %d connections, want %d", suffix, got, want)
		}
	}
}
