package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/hack/bench/baseline"
)

// openPool connects to a database of the bench.
func openPool(ctx context.Context, databaseURL string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("open a database: %w", err)
	}
	return pool, nil
}

// createDatabase makes an empty database in the same PostgreSQL.
func (s *stack) createDatabase(ctx context.Context, name string) (databaseURL string, pool *pgxpool.Pool, err error) {
	if _, err := s.pool.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", nil, fmt.Errorf("create database %s: %w", name, err)
	}
	address, err := url.Parse(s.databaseURL)
	if err != nil {
		return "", nil, err
	}
	address.Path = "/" + name
	pool, err = openPool(ctx, address.String())
	return address.String(), pool, err
}

// dropDatabase closes the pool of a database and drops it: many rows would be in the way of later parts.
func (s *stack) dropDatabase(ctx context.Context, pool *pgxpool.Pool) {
	name := pool.Config().ConnConfig.Database
	pool.Close()
	_, _ = s.pool.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

// openBaseline makes the baseline's tables, in a database of their own; once.
func (s *stack) openBaseline(ctx context.Context) (err error) {
	if s.baseline != nil {
		return nil
	}
	if s.baselineURL, s.baseline, err = s.createDatabase(ctx, "baseline"); err != nil {
		return err
	}
	if _, err := s.baseline.Exec(ctx, baseline.Schema); err != nil {
		return fmt.Errorf("make the baseline's tables: %w", err)
	}
	return nil
}
