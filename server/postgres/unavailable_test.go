package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
)

func TestUnavailableKnowsAServerInTrouble(t *testing.T) {
	t.Parallel()
	refusal := func(code string) error { return fmt.Errorf("read: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		name string
		err  error
		away bool
	}{
		{"starting up", refusal("57P03"), true},
		{"shutting down", refusal("57P01"), true},
		{"statement timeout", refusal("57014"), true},
		{"too many connections", refusal("53300"), true},
		{"disk full", refusal("53100"), true},
		{"connection failure", refusal("08006"), true},
		{"became a standby", refusal("25006"), true},
		{"deadlock", refusal("40P01"), true},
		{"transaction idle for too long", refusal("25P03"), true},
		{"broken connection", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		{"out of time", fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		{"unique violation", refusal("23505"), false},
		{"no such table", refusal("42P01"), false},
		{"bad text", refusal("22021"), false},
		{"no rows", pgx.ErrNoRows, false},
		{"another error", errors.New("x"), false},
		{"none", nil, false},
	} {
		if got := postgres.Unavailable(c.err); got != c.away {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestDividesKnowsWhatOneRowCanCause(t *testing.T) {
	t.Parallel()
	refusal := func(code string) error { return fmt.Errorf("write: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		name    string
		err     error
		divides bool
	}{
		{"damaged page", refusal("XX001"), true},
		{"damaged index", refusal("XX002"), true},
		{"a trigger refuses", refusal("P0001"), true},
		{"unique violation", refusal("23505"), true},
		{"bad text", refusal("22021"), true},
		{"deadlock", refusal("40P01"), true},
		{"serialization", refusal("40001"), true},
		{"lock_timeout", refusal("55P03"), true},
		{"statement_timeout", refusal("57014"), true},
		{"shutting down", refusal("57P01"), false},
		{"disk full", refusal("53100"), false},
		{"connection failure", refusal("08006"), false},
		{"became a standby", refusal("25006"), false},
		{"idle in a transaction for too long", refusal("25P03"), false},
		{"broken connection", fmt.Errorf("write: %w", io.ErrUnexpectedEOF), false},
		{"out of time", fmt.Errorf("write: %w", context.DeadlineExceeded), false},
		{"another error", errors.New("x"), false},
		{"none", nil, false},
	} {
		if got := postgres.Divides(c.err); got != c.divides {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestUnavailableKnowsWhatTheDriverSays(t *testing.T) {
	t.Parallel()
	if _, err := pgx.Connect(t.Context(), "postgres://127.0.0.1:1/x?sslmode=disable"); !postgres.Unavailable(err) {
		t.Errorf("a port that nobody listens on: %v", err)
	}
	pool := testkit.Database(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(ctx, "SELECT pg_sleep(60)"); !postgres.Unavailable(err) {
		t.Errorf("a deadline: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())"); !postgres.Unavailable(err) {
		t.Errorf("a connection that was ended: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "SELECT 1/0"); postgres.Unavailable(err) {
		t.Errorf("a mistake in the statement: %v", err)
	}
}
