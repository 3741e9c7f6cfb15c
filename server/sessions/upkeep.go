package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/sessionsdb"
)

const (
	// forgetInterval is the time between two deletions of expired rows by one pod.
	forgetInterval = 5 * time.Minute
	// forgetMost is the maximum number of rows that one statement deletes, forgetTimeout bounds the statement.
	forgetMost    = 1000
	forgetTimeout = 10 * time.Second
)

// Run deletes expired sessions and used sign-ins, at once and every five minutes, until ctx ends. It always returns nil: PostgreSQL logs
// why it refuses, and the next time tries again.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(forgetInterval)
	defer ticker.Stop()
	for {
		_ = s.Forget(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Forget deletes expired sessions and used sign-ins in portions. A row that PostgreSQL does not let it delete, or that another
// transaction locks, costs no other: a later call deletes it.
func (s *Store) Forget(ctx context.Context) error {
	now := s.now()
	expiredSessions := func(ctx context.Context, last expired) ([]expired, error) {
		rows, err := s.queries.ExpiredSessions(ctx, sessionsdb.ExpiredSessionsParams{
			Now: now, After: last.ExpiresAt, AfterHash: last.Hash, Most: forgetMost,
		})
		return convert(rows, func(row sessionsdb.ExpiredSessionsRow) expired { return expired(row) }), err
	}
	usedSignIns := func(ctx context.Context, last expired) ([]expired, error) {
		rows, err := s.queries.ExpiredSignIns(ctx, sessionsdb.ExpiredSignInsParams{
			Now: now, After: last.ExpiresAt, AfterHash: last.Hash, Most: forgetMost,
		})
		return convert(rows, func(row sessionsdb.UsedSignIn) expired { return expired(row) }), err
	}
	return errors.Join(
		forget(ctx, "expired sessions", expiredSessions, s.queries.DropSessions),
		forget(ctx, "used sign-ins", usedSignIns, s.queries.DropSignIns),
	)
}

// expired is a row to delete.
type expired struct {
	Hash      []byte
	ExpiresAt time.Time
}

func convert[R any](rows []R, f func(R) expired) []expired {
	all := make([]expired, len(rows))
	for i, row := range rows {
		all[i] = f(row)
	}
	return all
}

// forget deletes the rows that next returns, in their order. A portion that cannot be deleted does not keep the later ones.
func forget(
	ctx context.Context, what string, next func(context.Context, expired) ([]expired, error), drop func(context.Context, [][]byte) error,
) (refused error) {
	for last := (expired{Hash: []byte{}}); ; {
		rows, err := next(ctx, last)
		if err != nil {
			return fmt.Errorf("read %s: %w", what, err)
		}
		hashes := make([][]byte, len(rows))
		for i, row := range rows {
			hashes[i] = row.Hash
		}
		err = postgres.Divide(hashes, func(hashes [][]byte) error {
			ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
			defer cancel()
			return drop(ctx, hashes)
		}, func(_ []byte, err error) { refused = err })
		if err != nil {
			refused = err
		}
		if len(rows) < forgetMost {
			break
		}
		last = rows[len(rows)-1]
	}
	if refused != nil {
		return fmt.Errorf("delete %s: %w", what, refused)
	}
	return nil
}
