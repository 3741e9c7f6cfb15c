package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// MigrateTo applies migrations up to one of them: a database as an earlier version of the program left it.
func MigrateTo(ctx context.Context, url string, version int64) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return &URLError{err}
	}
	db := openOwn(cfg)
	defer func() { _ = db.Close() }()
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrate to %d: %w", version, err)
	}
	return nil
}
