package postgres

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
)

// SchemaError says that a database's schema is older than the program needs: the number of its last migration and of
// the program's.
type SchemaError struct {
	Database, Program int64
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("the database has the schema of migration %d, this version of the program needs %d: run `examprep migrate` first",
		e.Database, e.Program)
}

// CheckSchema returns *SchemaError when migrations are missing in a database that was migrated before. A newer schema is
// none: older pods go on, and come back after a roll-back, on what newer ones have migrated.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool) error {
	program, err := schemaVersion()
	if err != nil {
		return err
	}
	var database int64
	if err := pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&database); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if database < program {
		return &SchemaError{Database: database, Program: program}
	}
	return nil
}

// schemaVersion is the number of the last embedded migration.
func schemaVersion() (int64, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, fmt.Errorf("embedded migrations: %w", err)
	}
	var last int64
	for _, file := range files {
		number, err := goose.NumericComponent(file)
		if err != nil {
			return 0, fmt.Errorf("embedded migrations: %w", err)
		}
		last = max(last, number)
	}
	return last, nil
}
