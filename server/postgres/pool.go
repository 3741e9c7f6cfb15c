package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// URLError says that a database URL cannot be read; it holds no password.
type URLError struct{ err error }

func (e *URLError) Error() string { return "DATABASE_URL: " + e.err.Error() }
func (e *URLError) Unwrap() error { return e.err }

// defaultMaxConns is a pool's size where the URL gives none. Each writer waits for its own commit, and commits that wait
// together share one flush of the log: pgx's own default of 4 on a small machine leaves nothing to share.
const defaultMaxConns = 20

// Open connects a pool and checks that the server answers. Settings in url (pool_max_conns and the like) win over the
// defaults here.
func Open(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &URLError{err}
	}
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = "examprep"
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = max(defaultMaxConns, cfg.MaxConns)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach database: %w", err)
	}
	return pool, nil
}
