package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// dataset is a database with size rows of one kind, and an API pod on it.
type dataset struct {
	name    string
	size    int64
	pool    *pgxpool.Pool
	url     string
	address string // of the API
	key     string
	ready   time.Duration // how long the pod took to become ready
}

// openDataset makes a database, fills it, and starts a pod on it.
func (s *stack) openDataset(ctx context.Context, name string, size int64, fill func(context.Context, *dataset) error) (*dataset, error) {
	databaseURL, pool, err := s.createDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &dataset{name: name, size: size, pool: pool, url: databaseURL}
	if err := s.serveDataset(ctx, d, fill); err != nil {
		d.pool.Close()
		return nil, err
	}
	return d, nil
}

func (s *stack) serveDataset(ctx context.Context, d *dataset, fill func(context.Context, *dataset) error) (err error) {
	program := s.program(d.url)
	if err := program.migrate(ctx); err != nil {
		return err
	}
	if err := applyTiers(ctx, d.pool); err != nil {
		return err
	}
	if d.key, err = program.createKey(ctx, tier); err != nil {
		return err
	}
	if err := fill(ctx, d); err != nil {
		return err
	}
	began := time.Now()
	d.address, err = s.startPod(ctx, d.name, "DATABASE_URL="+d.url)
	d.ready = time.Since(began)
	return err
}

// close drops the database.
func (d *dataset) close(ctx context.Context, s *stack) { s.dropDatabase(ctx, d.pool) }
