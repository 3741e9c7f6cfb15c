package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Ping returns nil if pool's server responds before ctx ends. If all connections of the pool are in use, it opens another:
// a full pool is not a failure of the server, and has its own metrics (RegisterPool).
func Ping(ctx context.Context, pool *pgxpool.Pool) error {
	if stat := pool.Stat(); stat.AcquiredConns() < stat.MaxConns() {
		return pool.Ping(ctx) //nolint:wrapcheck // callers only check for nil
	}
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return err //nolint:wrapcheck // see above
	}
	return conn.Close(ctx) //nolint:wrapcheck // see above
}
