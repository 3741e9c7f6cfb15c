package directory_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func admin(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	cfg := pool.Config().ConnConfig
	cfg.Database = "postgres"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	check.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	for _, statement := range statements {
		_, err := conn.Exec(t.Context(), statement)
		check.NoError(t, err)
	}
}

func TestRestoredDatabaseIsServedAsItIs(t *testing.T) {
	pool := testkit.Database(t)
	name := pool.Config().ConnConfig.Database
	backup, replaced := name+"_backup", name+"_replaced"
	rdb, prefix := testkit.Redis(t)
	board := directory.NewRedisBoard(rdb, prefix)
	kept, revoked := create(t, pool, "acme"), create(t, pool, "acme")
	d, _ := start(t, pool, directory.Config{Board: board})

	open := testkit.CutOff(t, pool)
	admin(t, pool, "CREATE DATABASE "+backup+" TEMPLATE "+name)
	open()
	testkit.Eventually(t, "the pod has a lease again", d.Leased)
	lost := create(t, pool, "acme")
	check.NoError(t, store(pool).RevokeAny(t.Context(), revoked.Prefix))
	confirm(t, pool, keys.Restriction)
	wantStatus(t, d, lost, directory.Live)
	wantStatus(t, d, revoked, directory.Unknown)
	newest := testkit.Get[int64](t, pool, "SELECT max(number) FROM key_changes")
	told := func(least int64) func() bool {
		return func() bool {
			stored, err := board.Read(t.Context())
			return err == nil && stored >= least
		}
	}
	testkit.Eventually(t, "Redis has the number", told(newest))

	testkit.CutOff(t, pool)
	admin(t, pool, "ALTER DATABASE "+name+" RENAME TO "+replaced, "ALTER DATABASE "+backup+" RENAME TO "+name,
		"ALTER DATABASE "+name+" ALLOW_CONNECTIONS true", "DROP DATABASE "+replaced)
	pool.Reset()
	testkit.Eventually(t, "the pod has loaded the backup", func() bool {
		_, status := d.Find(t.Context(), hashOf(lost))
		return status == directory.Unknown
	})
	wantStatus(t, d, kept, directory.Live)
	wantStatus(t, d, revoked, directory.Live) // as the backup says
	testkit.Eventually(t, "a number above the lost one is told", told(newest+1))

	check.NoError(t, store(pool).RevokeAny(t.Context(), revoked.Prefix))
	confirm(t, pool, keys.Restriction)
	wantStatus(t, d, revoked, directory.Unknown)
	wantStatus(t, d, kept, directory.Live)
}
