package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Ping asks whether pool's server answers, within ctx. Where all of the pool's connections are at work it makes one of its
// own: that nobody lends one says nothing of the server, and is told elsewhere (RegisterPool).
func Ping(ctx context.Context, pool *pgxpool.Pool) error {
	if stat := pool.Stat(); stat.AcquiredConns() < stat.MaxConns() {
		return pool.Ping(ctx) //nolint:wrapcheck // whoever asks wants to know no more than whether
	}
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return err //nolint:wrapcheck // see above
	}
	return conn.Close(ctx) //nolint:wrapcheck // see above
}
