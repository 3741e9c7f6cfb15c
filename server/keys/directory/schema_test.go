package directory

import (
	_ "embed"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/testkit"
)

//go:embed schema.sql
var schema string

// NewDatabase returns a database with the tables of the directory.
func NewDatabase(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := testkit.Database(t)
	testkit.Exec(t, pool, schema)
	return pool
}
