package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// insertAttempts writes a range of attempts; its comment says which.
//
//go:embed history.sql
var insertAttempts string

const (
	// hotLearner is the learner whose history is read, in addition to the history of the whole key.
	hotLearner = "learner-hot"
	// loadChunk is how many rows one statement of the load writes.
	loadChunk = 50_000
	// hotShare is how many attempts there are to one of the hot key, and of those to one of the hot learner.
	hotShare = 10
)

// owner has the ids of a key that its attempts have too.
type owner struct{ account, family, key uuid.UUID }

// fillAttempts makes all attempts, many of them the hot key's.
func (s *stack) fillAttempts(ctx context.Context, d *dataset) error {
	var hot owner
	err := d.pool.QueryRow(ctx, "SELECT account_id, family_id, id FROM api_keys WHERE prefix = $1", d.key[:prefixLength]).
		Scan(&hot.account, &hot.family, &hot.key)
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	return s.loadAttempts(ctx, d, hot)
}

// loadAttempts drops the indexes, writes the rows, and builds the indexes again by their definitions. The
// tables end up the same. Ten million rows take minutes instead of an hour.
func (s *stack) loadAttempts(ctx context.Context, d *dataset, hot owner) error {
	began := time.Now()
	restore, err := dropIndexes(ctx, d.pool)
	if err != nil {
		return err
	}
	learner, err := s.learnerName(hot.family, hotLearner)
	if err != nil {
		return err
	}
	others := uuid.New()
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for from := int64(0); from < d.size; from += loadChunk {
		group.Go(func() error {
			_, err := d.pool.Exec(within, insertAttempts, hot.account, hot.family, hot.key, others, examKey, learner,
				from, min(from+loadChunk, d.size)-1)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("load attempts: %w", err)
	}
	inserted := time.Since(began)
	for _, statement := range append(restore,
		`INSERT INTO attempt_counters (family_id, exam_key, learner, total)
		 SELECT family_id, exam_key, ''::bytea, max(key_seq) FROM attempts GROUP BY 1, 2
		 UNION ALL
		 SELECT family_id, exam_key, learner, max(learner_seq) FROM attempts WHERE learner <> '' GROUP BY 1, 2, 3`,
		"ANALYZE attempts, attempt_counters", "CHECKPOINT") {
		if err := s.maintain(ctx, d.pool, statement); err != nil {
			return err
		}
	}
	var size string
	if err := d.pool.QueryRow(ctx, "SELECT pg_size_pretty(pg_database_size(current_database()))").Scan(&size); err != nil {
		return err
	}
	s.say("%s: %d attempts, %s, in %.0f s (%.0f s of it the rows)", d.name, d.size, size, time.Since(began).Seconds(), inserted.Seconds())
	return nil
}

// dropIndexes drops what slows the load of attempts down, and returns the statements that bring it back.
func dropIndexes(ctx context.Context, pool *pgxpool.Pool) (restore []string, err error) {
	rows, err := pool.Query(ctx, `
		SELECT coalesce('ALTER TABLE attempts DROP CONSTRAINT ' || quote_ident(c.conname), 'DROP INDEX ' || i.indexrelid::regclass),
		       coalesce('ALTER TABLE attempts ADD CONSTRAINT ' || quote_ident(c.conname) || ' ' || pg_get_constraintdef(c.oid),
		                pg_get_indexdef(i.indexrelid))
		FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
		WHERE i.indrelid = 'attempts'::regclass`)
	if err != nil {
		return nil, fmt.Errorf("find the indexes: %w", err)
	}
	statements, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pair [2]string, err error) {
		return pair, row.Scan(&pair[0], &pair[1])
	})
	if err != nil {
		return nil, fmt.Errorf("find the indexes: %w", err)
	}
	for _, pair := range statements {
		if _, err := pool.Exec(ctx, pair[0]); err != nil {
			return nil, fmt.Errorf("drop an index: %w", err)
		}
		restore = append(restore, pair[1])
	}
	return restore, nil
}

// maintain runs a statement with the memory that such work gets.
func (s *stack) maintain(ctx context.Context, pool *pgxpool.Pool, statement string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, step := range []string{"SET statement_timeout = 0", "SET maintenance_work_mem = '512MB'", "SET work_mem = '256MB'", statement, "RESET ALL"} {
		if _, err := conn.Exec(ctx, step); err != nil {
			return fmt.Errorf("%.40s…: %w", statement, err)
		}
	}
	return nil
}

// learnerName returns the hash that rows hold instead of a learner_id (docs/spec.md, part 2).
func (s *stack) learnerName(family uuid.UUID, reference string) ([]byte, error) {
	secret, err := base64.StdEncoding.DecodeString(s.namespaceSecret)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write(family[:])
	_, _ = mac.Write([]byte(reference))
	return mac.Sum(nil), nil
}
