package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// costlyStatements is how many statements of a path the report has, of those that take the most time.
	costlyStatements = 5
	// reloadTime is longer than a server process that waits for a statement takes to read changed settings.
	reloadTime = 200 * time.Millisecond
)

// noteStatements reports what PostgreSQL does for an operation of a path: the statements of one database while run runs. It does not
// count at other times, because counting costs a little. run returns the number of operations.
func (s *stack) noteStatements(ctx context.Context, pool *pgxpool.Pool, path string, r *report, run func(context.Context) (int, error)) error {
	if err := s.countStatements(ctx, "top"); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "SELECT pg_stat_statements_reset()"); err != nil {
		return fmt.Errorf("reset the statements' figures: %w", err)
	}
	operations, err := run(ctx)
	if err != nil {
		return err
	}
	rows, err := s.pool.Query(ctx, `SELECT regexp_replace(left(s.query, 70), '\s+', ' ', 'g'), s.calls::float8, s.rows::float8,
		s.wal_bytes::float8, s.shared_blks_hit::float8, 1000 * s.total_exec_time
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = $1 AND s.query NOT LIKE '%pg_stat_statements%' ORDER BY s.total_exec_time DESC`,
		pool.Config().ConnConfig.Database)
	if err != nil {
		return fmt.Errorf("read the statements' figures: %w", err)
	}
	type cost struct {
		Query                              string
		Calls, Rows, WAL, Hits, ServerTime float64
	}
	costs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[cost])
	if err != nil {
		return fmt.Errorf("read the statements' figures: %w", err)
	}
	lines := []string{"for each operation|calls|rows|WAL bytes|shared hits|µs|statement"}
	line := func(c cost) {
		per := float64(max(operations, 1))
		lines = append(lines, fmt.Sprintf("|%.3f|%.2f|%.0f|%.1f|%.1f|%s",
			c.Calls/per, c.Rows/per, c.WAL/per, c.Hits/per, c.ServerTime/per, strings.TrimSpace(c.Query)))
	}
	all := cost{Query: "all statements"}
	for i, c := range costs {
		all.Calls, all.Rows, all.WAL = all.Calls+c.Calls, all.Rows+c.Rows, all.WAL+c.WAL
		all.Hits, all.ServerTime = all.Hits+c.Hits, all.ServerTime+c.ServerTime
		if i < costlyStatements {
			line(c)
		}
	}
	line(all)
	r.notef("PostgreSQL's part of %s:\n%s", path, columns(lines))
	return s.countStatements(ctx, "none")
}

// countStatements tells pg_stat_statements what to count.
func (s *stack) countStatements(ctx context.Context, track string) error {
	for _, statement := range []string{"ALTER SYSTEM SET pg_stat_statements.track = '" + track + "'", "SELECT pg_reload_conf()"} {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("count statements: %w", err)
		}
	}
	if !wait(ctx, time.NewTimer(reloadTime), reloadTime) {
		return context.Cause(ctx)
	}
	return nil
}
