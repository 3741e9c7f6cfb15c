package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Divides reports whether a batch that failed with err must be run again in parts: PostgreSQL has refused it, and the reason can be
// one of its rows. That includes a deadlock, and a limit on the time of a lock or of a statement (lock_timeout,
// statement_timeout). An outage is no such reason.
func Divides(err error) bool {
	_, refused := errors.AsType[*pgconn.PgError](err)
	return refused && (Contended(err) || !Unavailable(err))
}

// Contended reports whether PostgreSQL has refused a statement because it met another transaction or took too long: a deadlock, a
// lock_timeout or a statement_timeout. The rows of the statement can be sound.
func Contended(err error) bool {
	reported, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch reported.Code {
	case deadlock, serialization, lockNotAvailable, statementTimeout:
		return true
	}
	return false
}

// Divide calls run with all rows. If that fails for a reason that can be one row's ([Divides]), it does the same with each half, so a
// bad row costs no other. refused gets each row that fails alone. Any other error ends the work and is returned.
func Divide[T any](rows []T, run func([]T) error, refused func(T, error)) error {
	if len(rows) == 0 {
		return nil
	}
	err := run(rows)
	if !Divides(err) {
		return err
	}
	if len(rows) == 1 {
		refused(rows[0], err)
		return nil
	}
	half := len(rows) / 2
	if err := Divide(rows[:half], run, refused); err != nil {
		return err
	}
	return Divide(rows[half:], run, refused)
}
