package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

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
	var begun, migrated, digested, finished bool
	var found Installation
	var digest string
	program := MigrationsDigest()
	err := db.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL,
		EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('installation') AND attname = 'migrations')`).Scan(&begun, &digested)
	switch {
	case err != nil:
	case digested:
		err = db.QueryRow(ctx, "SELECT id, environment, migrations, migrated_at IS NOT NULL FROM installation").Scan(&found.ID, &found.Environment, &digest, &finished)
	case begun: // another run has perhaps not applied the first migration yet, so the rows decide
		err = db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM goose_db_version WHERE version_id > 0)").Scan(&migrated)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Installation{}, &SchemaError{Program: program}
	case err != nil:
		return Installation{}, fmt.Errorf("read installation: %w", err)
	case migrated:
		return Installation{}, &SchemaError{Database: "none", Program: program}
	case !digested:
		return Installation{}, &SchemaError{Program: program}
	case digest != program:
		return Installation{}, &SchemaError{Database: digest, Program: program}
	case want != "" && found.Environment != want:
		return Installation{}, &EnvironmentError{Process: want, Database: found.Environment}
	case !finished:
		return Installation{}, &SchemaError{Program: program}
	}
	return found, nil
}

// RunningError reports that API pods run on a database that must have none.
type RunningError struct{}

func (*RunningError) Error() string {
	return "an API pod has renewed its lease on this database in the last minute: stop all processes that use it, wait a minute and repeat"
}

// ReplaceInstallation makes a copy of a database an installation of its own: it stores another id, and forgets the API pods of the
// original. No process may run on the copy. It returns the errors of [ReadInstallation], and *RunningError when an API pod
// renewed its lease in the last minute. In these cases it has changed nothing.
func ReplaceInstallation(ctx context.Context, url string, env Environment) (Installation, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return Installation{}, &URLError{err}
	}
	requirePrimary(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return Installation{}, fmt.Errorf("reach database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	installation, err := ReadInstallation(ctx, conn, env)
	if err != nil {
		return Installation{}, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var running bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api_pods WHERE renewed_at > clock_timestamp() - interval '1 minute')`).
			Scan(&running); err != nil || running {
			return cmp.Or[error](err, &RunningError{})
		}
		if _, err := tx.Exec(ctx, "DELETE FROM api_pods"); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		return tx.QueryRow(ctx, "UPDATE installation SET id = gen_random_uuid() RETURNING id").Scan(&installation.ID) //nolint:wrapcheck // see above
	})
	if err != nil {
		return Installation{}, fmt.Errorf("replace the installation: %w", err)
	}
	return installation, nil
}

// MigrationsDigest names the embedded set of migrations: 16 hex digits that change with any of their bytes.
func MigrationsDigest() string {
	h := sha256.New()
	_ = fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := migrations.ReadFile(path)
		_, _ = fmt.Fprintf(h, "%s\n%s\n", path, content)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8])
}
