package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit/check"
)

func TestDivideCostsNoOtherRow(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][]int{
		"none": {}, "the first": {0}, "the last": {99}, "some": {1, 2, 50}, "all": numbers(100),
	} {
		var done, refused []int
		check.NoError(t, postgres.Divide(numbers(100), func(rows []int) error {
			if slices.ContainsFunc(rows, func(row int) bool { return slices.Contains(bad, row) }) {
				return &pgconn.PgError{Code: "P0001"}
			}
			done = append(done, rows...)
			return nil
		}, func(row int, _ error) { refused = append(refused, row) }))
		if len(done) != 100-len(bad) || !slices.Equal(refused, bad) {
			t.Errorf("%s: %d rows are done and %v refused, want %v refused", name, len(done), refused, bad)
		}
	}
}

func TestDivideStopsDuringAnOutage(t *testing.T) {
	t.Parallel()
	calls := 0
	err := postgres.Divide(numbers(100), func([]int) error {
		calls++
		if calls == 1 {
			return &pgconn.PgError{Code: "55P03"}
		}
		return context.DeadlineExceeded
	}, func(int, error) { t.Error("a row is refused") })
	if !errors.Is(err, context.DeadlineExceeded) || calls != 2 {
		t.Errorf("%v after %d calls, want the deadline after 2", err, calls)
	}
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
