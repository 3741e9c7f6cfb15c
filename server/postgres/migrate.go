package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Environment keeps production and sandbox apart: it is stamped into a database once and never changes.
type Environment string

// The environments.
const (
	Production Environment = "production"
	Sandbox    Environment = "sandbox"
)

// EnvironmentError says that a process and its database belong to different environments, or that the database was
// never migrated (Database is empty).
type EnvironmentError struct {
	Process, Database Environment
}

func (e *EnvironmentError) Error() string {
	if e.Database == "" {
		return "the database carries no environment: run `examprep migrate --environment production` (or sandbox) first"
	}
	return fmt.Sprintf("this process runs as %s, the database belongs to %s", e.Process, e.Database)
}

const (
	// lockTimeout bounds how long a transactional migration waits for a table's lock: whoever uses the table meanwhile
	// waits behind it.
	lockTimeout = 2 * time.Second
	// lockTries is how often a migration whose wait for a lock was over is tried, lockPause apart.
	lockTries = 60
	lockPause = time.Second
)

// Migrate applies what is missing, forward only, and stamps env. It is safe to run twice and from several pods at once:
// a session lock lets one work while the others wait. A migration gives way to who holds the lock of a table that it
// needs, and is tried again for some minutes; it also can be run again after any failure.
func Migrate(ctx context.Context, url string, env Environment) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return &URLError{err}
	}
	for try := 1; ; try++ {
		err = migrateOnce(ctx, cfg, env)
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || refusal.Code != lockNotAvailable || try == lockTries {
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
	db := openOwn(cfg)
	defer func() { _ = db.Close() }()
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", err)
	}
	return stamp(ctx, db, env)
}

// openOwn returns connections whose statements wait for a lock no longer than lockTimeout.
func openOwn(cfg *pgx.ConnConfig) *sql.DB {
	return stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", lockTimeout.Milliseconds()))
		return err
	}))
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("embedded migrations: %w", err)
	}
	// It asks once a second, and never waits inside the server: what CREATE INDEX CONCURRENTLY waits for are the
	// transactions of others, and a waiting one would be among them.
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

func stamp(ctx context.Context, db *sql.DB, env Environment) error {
	if _, err := db.ExecContext(ctx,
		"INSERT INTO installation (environment) VALUES ($1) ON CONFLICT DO NOTHING", string(env)); err != nil {
		return fmt.Errorf("stamp environment: %w", err)
	}
	var found string
	if err := db.QueryRowContext(ctx, "SELECT environment FROM installation").Scan(&found); err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	if Environment(found) != env {
		return &EnvironmentError{Process: env, Database: Environment(found)}
	}
	return nil
}

// CheckEnvironment returns *EnvironmentError unless the database carries env.
func CheckEnvironment(ctx context.Context, pool *pgxpool.Pool, env Environment) error {
	found, err := ReadEnvironment(ctx, pool)
	if err != nil {
		return err
	}
	if found != env {
		return &EnvironmentError{Process: env, Database: found}
	}
	return nil
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

// ReadEnvironment returns the environment that the database carries, or *EnvironmentError when it was never migrated.
func ReadEnvironment(ctx context.Context, pool *pgxpool.Pool) (Environment, error) {
	var migrated bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass('installation') IS NOT NULL").Scan(&migrated); err != nil {
		return "", fmt.Errorf("read environment: %w", err)
	}
	if !migrated {
		return "", &EnvironmentError{}
	}
	var found string
	err := pool.QueryRow(ctx, "SELECT environment FROM installation").Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", &EnvironmentError{}
	}
	if err != nil {
		return "", fmt.Errorf("read environment: %w", err)
	}
	return Environment(found), nil
}
