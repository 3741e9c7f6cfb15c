package postgres_test

import (
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/postgrestest"
)

func TestMigrateIsSafeTwiceAndFromTwoPodsAtOnce(t *testing.T) {
	url := postgrestest.URL(t)
	var pods errgroup.Group
	for range 4 {
		pods.Go(func() error { return postgres.Migrate(t.Context(), url, postgres.Sandbox) })
	}
	if err := pods.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherEnvironmentIsRefused(t *testing.T) {
	url := postgrestest.URL(t)
	var mismatch *postgres.EnvironmentError
	if err := postgres.Migrate(t.Context(), url, postgres.Production); !errors.As(err, &mismatch) {
		t.Fatalf("migrate: got %v, want an EnvironmentError", err)
	}
	pool, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.CheckEnvironment(t.Context(), pool, postgres.Sandbox); err != nil {
		t.Fatal(err)
	}
	if err := postgres.CheckEnvironment(t.Context(), pool, postgres.Production); !errors.As(err, &mismatch) {
		t.Fatalf("check: got %v, want an EnvironmentError", err)
	}
	if mismatch.Database != postgres.Sandbox {
		t.Errorf("database environment = %q, want %q", mismatch.Database, postgres.Sandbox)
	}
}
