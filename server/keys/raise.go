package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/keysdb"
)

const (
	// announceChunk is how many keys are raised at a time, and how many one announcement carries. Without Redis each takes
	// seconds, however many keys it has; with Redis it is to be over before a pod must renew its trust.
	announceChunk = 5_000
	// raisePause is how long to wait for keys that others hold, and for others that raise keys.
	raisePause = 20 * time.Millisecond
)

// raise raises the versions of all listed keys, whoever listed them, and announces them, a chunk at a time: each chunk
// holds its keys for a moment, and what the gates must catch up with is never more than that. One process does it at a
// time, so that whoever finds the list empty knows that what was on it is announced; what one that died has raised is
// announced first.
func (s *Store) raise(ctx context.Context) error {
	start, count := time.Now(), 0
	err := s.whileNobodyElseRaises(ctx, func() error {
		if err := s.announcePending(ctx, &count); err != nil {
			return err
		}
		for {
			held, err := s.raiseOnce(ctx, &count)
			if err != nil || held == 0 {
				return err
			}
			if err := pause(ctx, raisePause); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return &NotAnnouncedError{Keys: max(count, 1), Waited: time.Since(start), Err: err}
	}
	return nil
}

// whileNobodyElseRaises calls do with a lock held that ends with its connection. Who waits for it keeps none.
func (s *Store) whileNobodyElseRaises(ctx context.Context, do func() error) error {
	for {
		mine := false
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var err error
			if mine, err = s.queries.WithTx(tx).TryRaiseLock(ctx); err != nil {
				return fmt.Errorf("lock raising of keys: %w", err)
			}
			if !mine {
				return nil
			}
			return do()
		})
		if err != nil || mine {
			return err
		}
		if err := pause(ctx, raisePause); err != nil {
			return err
		}
	}
}

// raiseOnce goes through the list once, adds the keys that it raised to count, and returns how many others held.
func (s *Store) raiseOnce(ctx context.Context, count *int) (held int, err error) {
	after := uuid.Nil
	for {
		listed, raised, err := s.raiseSome(ctx, after)
		if err != nil {
			return held, err
		}
		*count, held = *count+len(raised), held+len(listed)-len(raised)
		if err := s.announceKeys(ctx, raised); err != nil {
			return held, err
		}
		if len(listed) < announceChunk {
			return held, nil
		}
		after = listed[len(listed)-1].KeyID
	}
}

// raiseSome raises those of the next listed keys that nobody holds.
func (s *Store) raiseSome(ctx context.Context, after uuid.UUID) (listed []keysdb.RaiseListedKeysRow, raised []uuid.UUID, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if err := q.ShareTierLock(ctx); err != nil {
			return fmt.Errorf("lock tiers: %w", err)
		}
		listed, err = q.RaiseListedKeys(ctx, keysdb.RaiseListedKeysParams{After: after, Most: announceChunk})
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("raise keys: %w", err)
	}
	for _, key := range listed {
		if key.Raised {
			raised = append(raised, key.KeyID)
		}
	}
	return listed, raised, nil
}

// announceKeys reads keys as committed and announces them.
func (s *Store) announceKeys(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.queries.RecordsByIDs(ctx, ids)
	if err != nil {
		return fmt.Errorf("read raised keys: %w", err)
	}
	return s.gate.Announce(ctx, recordsOf(rows)...)
}

// announcePending announces what is unannounced, whoever left it, and adds it to count.
func (s *Store) announcePending(ctx context.Context, count *int) error {
	after := uuid.Nil
	for {
		records, err := s.Pending(ctx, after, announceChunk)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return nil
		}
		*count += len(records)
		if err := s.gate.Announce(ctx, records...); err != nil {
			return err
		}
		if len(records) < announceChunk {
			return nil
		}
		after = records[len(records)-1].KeyID
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
