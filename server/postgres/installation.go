package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Environment keeps production and sandbox apart: Migrate stores it in a database once, and it never changes.
type Environment string

// The environments.
const (
	Production Environment = "production"
	Sandbox    Environment = "sandbox"
)

// Installation is one database with all processes that use it. [Migrate] makes its id.
type Installation struct {
	ID          uuid.UUID
	Environment Environment
}

// RedisPrefix is what the installation's names in Redis begin with, so that installations that share a Redis never meet.
func (i Installation) RedisPrefix() string { return "examprep:" + i.ID.String() + ":" }

// EnvironmentError reports that a process and its database belong to different environments.
type EnvironmentError struct {
	Process, Database Environment
}

func (e *EnvironmentError) Error() string {
	return fmt.Sprintf("this process runs as %s, the database belongs to %s", e.Process, e.Database)
}

// SchemaError reports a database whose schema is not that of this build. Database and Program are digests of migration
// files; Database is empty when the database was never migrated or not to the end, "none" when it has no digest.
type SchemaError struct {
	Database, Program string
}

func (e *SchemaError) Error() string {
	if e.Database == "" {
		return "the database is not migrated: run `examprep migrate --environment production` (or sandbox) first"
	}
	return fmt.Sprintf("the database was made by another build (migrations %s, this build has %s); nothing was released yet, "+
		"so there is no upgrade: drop the database, create it again and run `examprep migrate`", e.Database, e.Program)
}

// Querier is the part of a pool or connection that ReadInstallation needs.
type Querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// ReadInstallation returns the installation that a database holds. It returns *SchemaError when the database was not
// migrated by this build, and *EnvironmentError when want is not empty and not its environment.
func ReadInstallation(ctx context.Context, db Querier, want Environment) (Installation, error) {
	var began, migrated, digested bool
	if err := db.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&began); err != nil {
		return Installation{}, fmt.Errorf("read installation: %w", err)
	}
	if began { // another run has perhaps not applied the first migration yet, so the rows decide
		if err := db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM goose_db_version WHERE version_id > 0)").Scan(&migrated); err != nil {
			return Installation{}, fmt.Errorf("read installation: %w", err)
		}
	}
	if err := db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('installation') AND attname = 'migrations')").Scan(&digested); err != nil {
		return Installation{}, fmt.Errorf("read installation: %w", err)
	}
	program := MigrationsDigest()
	if !digested {
		if migrated {
			return Installation{}, &SchemaError{Database: "none", Program: program}
		}
		return Installation{}, &SchemaError{Program: program}
	}
	var found Installation
	var digest string
	var finished bool
	err := db.QueryRow(ctx, "SELECT id, environment, migrations, migrated_at IS NOT NULL FROM installation").Scan(&found.ID, &found.Environment, &digest, &finished)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Installation{}, &SchemaError{Program: program}
	case err != nil:
		return Installation{}, fmt.Errorf("read installation: %w", err)
	case digest != program:
		return Installation{}, &SchemaError{Database: digest, Program: program}
	case want != "" && found.Environment != want:
		return Installation{}, &EnvironmentError{Process: want, Database: found.Environment}
	case !finished:
		return Installation{}, &SchemaError{Program: program}
	}
	return found, nil
}
