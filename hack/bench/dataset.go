package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/hack/dev/process"
)

// dataset is a database with size rows of one kind, and an API pod on it.
type dataset struct {
	name       string
	size       int64
	pool       *pgxpool.Pool
	supervisor *process.Supervisor // of the pod
	url        string
	address    string // of the API
	key        string
	ready      time.Duration // how long the pod took to become ready
}

// compareDatasets opens two datasets of the same kind, one with few rows and one with many, and closes them after compare.
func (s *stack) compareDatasets(
	ctx context.Context, name string, few, many int64, fill func(context.Context, *dataset) error, compare func(small, large *dataset) error,
) error {
	small, err := s.openDataset(ctx, name+"_small", few, fill)
	if err != nil {
		return err
	}
	defer small.close(context.WithoutCancel(ctx), s)
	large, err := s.openDataset(ctx, name+"_large", many, fill)
	if err != nil {
		return err
	}
	defer large.close(context.WithoutCancel(ctx), s)
	return compare(small, large)
}

// openDataset makes a database, fills it, and starts a pod on it. Close what it returns.
func (s *stack) openDataset(ctx context.Context, name string, size int64, fill func(context.Context, *dataset) error) (*dataset, error) {
	supervisor, err := process.New(s.dir.Path("log"), s.dir.Path("pids"), s.say)
	if err != nil {
		return nil, err
	}
	databaseURL, pool, err := s.createDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &dataset{name: name, size: size, pool: pool, supervisor: supervisor, url: databaseURL}
	if err := s.serveDataset(ctx, d, fill); err != nil {
		d.close(context.WithoutCancel(ctx), s)
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
	d.address, err = s.startPodUnder(ctx, d.supervisor, d.name, "DATABASE_URL="+d.url)
	d.ready = time.Since(began)
	return err
}

// close stops the pod and drops the database: both would take CPU from what later parts measure.
func (d *dataset) close(ctx context.Context, s *stack) {
	d.supervisor.Stop()
	s.dropDatabase(ctx, d.pool)
}
