package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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

func TestEachConnectionOfAPoolHasItsSettings(t *testing.T) {
	address := postgrestest.URL(t)
	pool, err := postgres.Open(t.Context(), address, postgres.Setting{Name: "enable_sort", Value: "off"}, postgres.Setting{Name: "jit", Value: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	one, err := pool.Acquire(t.Context()) // so that the next one is another connection
	if err != nil {
		t.Fatal(err)
	}
	defer one.Release()
	for _, query := range []interface {
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	}{one, pool} {
		var got string
		if err := query.QueryRow(t.Context(), "SELECT current_setting('enable_sort') || current_setting('jit')").Scan(&got); err != nil || got != "offoff" {
			t.Errorf("got %q and %v", got, err)
		}
	}
	if _, err := postgres.Open(t.Context(), address, postgres.Setting{Name: "enable_sort", Value: "perhaps"}); err == nil {
		t.Error("a setting that the server refuses was let pass")
	}
}

func TestAListOfUUIDsGoesInBinary(t *testing.T) {
	pool := postgrestest.New(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	allocations := testing.AllocsPerRun(10, func() {
		if _, err := conn.Conn().TypeMap().Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, ids, nil); err != nil {
			t.Fatal(err)
		}
	})
	if most := float64(8 * len(ids)); allocations > most { // by way of text it takes 20 for each
		t.Errorf("%v allocations for %d ids, want at most %v", allocations, len(ids), most)
	}
	var back []uuid.UUID
	if err := conn.QueryRow(t.Context(), "SELECT $1::uuid[]", ids).Scan(&back); err != nil || !slices.Equal(back, ids) {
		t.Errorf("got %v and %v back, want %v", back, err, ids)
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
