package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// lockTimeout bounds how long a statement of Migrate waits for the lock of a table: other users of the table wait behind it.
	lockTimeout = 2 * time.Second
	// lockRetries is how often Migrate starts again after a lock timeout, lockPause apart.
	lockRetries = 60
	lockPause   = time.Second
	// weeksAhead is how many weeks after the present one get partitions.
	weeksAhead = 8
)

// Migrate brings a database to the schema of this build: it applies the missing migrations, forward only, stores the
// installation, and makes the webhook partitions of this week and the next eight.
//
// It is safe to run twice and from several pods at once: a session lock lets one work while the others wait. When it
// cannot get the lock of a table it tries again for some minutes; it can be run again after any failure.
//
// It returns *SchemaError when another build made the database, and *EnvironmentError when the database belongs to
// another environment. In both cases it has changed nothing.
func Migrate(ctx context.Context, url string, env Environment) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return &URLError{err}
	}
	requirePrimary(cfg)
	for try := 1; ; try++ {
		err = migrateOnce(ctx, cfg, env)
		locked, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || locked.Code != lockNotAvailable || try == lockRetries {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(lockPause):
		}
	}
}

// migrateOnce migrates over connections of its own: settings that a migration left behind end with them.
func migrateOnce(ctx context.Context, cfg *pgx.ConnConfig, env Environment) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("reach database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := limitLockWaits(ctx, conn); err != nil {
		return err
	}
	if err := checkUsable(ctx, conn, env); err != nil {
		return err
	}
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(limitLockWaits))
	defer func() { _ = db.Close() }()
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	// The installation is stored before any other table is made, so that a run that breaks off leaves its digest.
	if _, err := provider.UpTo(ctx, 1); err != nil {
		return fmt.Errorf("apply the first migration: %w", err)
	}
	if err := storeInstallation(ctx, conn, env); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", err)
	}
	if err := addPartitions(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "UPDATE installation SET migrated_at = now() WHERE migrated_at IS NULL"); err != nil {
		return fmt.Errorf("store the end of the migration: %w", err)
	}
	return nil
}

// limitLockWaits makes the statements of a connection wait for a lock no longer than lockTimeout.
func limitLockWaits(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", lockTimeout.Milliseconds())); err != nil {
		return fmt.Errorf("set the lock timeout: %w", err)
	}
	return nil
}

// checkUsable refuses a database that this build or environment must not touch.
func checkUsable(ctx context.Context, conn *pgx.Conn, env Environment) error {
	_, err := ReadInstallation(ctx, conn, env)
	if schema, ok := errors.AsType[*SchemaError](err); ok && schema.Database == "" {
		return nil // not migrated, or not to the end
	}
	return err
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("embedded migrations: %w", err)
	}
	// The locker polls once a second. It does not wait inside the server, where a waiting transaction blocks CREATE INDEX
	// CONCURRENTLY of another run.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("prepare migrations: %w", err)
	}
	return provider, nil
}

// storeInstallation stores the installation's id, environment and digest, and checks what another run has stored.
func storeInstallation(ctx context.Context, conn *pgx.Conn, env Environment) error {
	if _, err := conn.Exec(ctx,
		"INSERT INTO installation (environment, migrations) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		string(env), MigrationsDigest()); err != nil {
		return fmt.Errorf("store installation: %w", err)
	}
	return checkUsable(ctx, conn, env)
}

// addPartitions makes the webhook partitions that are missing, a statement for each: none holds its locks for longer than
// one partition takes.
func addPartitions(ctx context.Context, conn *pgx.Conn) error {
	for week := range weeksAhead + 1 {
		for _, kind := range []string{"events", "deliveries", "attempts"} {
			// Weeks are counted from the epoch, as in server/webhooks/delivery/retention.
			if _, err := conn.Exec(ctx, `
				SELECT webhook_add_partition($1, starts, starts + interval '168 hours')
				FROM (SELECT to_timestamp((floor(extract(epoch FROM now()) / 604800) + $2) * 604800) AS starts) w`, kind, week); err != nil {
				return fmt.Errorf("add the partition of webhook %s for week %d from now: %w", kind, week, err)
			}
		}
	}
	return nil
}
