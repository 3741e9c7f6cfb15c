package testkit

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/testkit/check"
)

func TestDatabasesOfEndedProcessesAndOldTemplatesAreDropped(t *testing.T) {
	server := serverURL(t, DatabaseVariable)
	living := pgxDatabase(t, DatabaseURL(t))
	conn, err := pgx.Connect(t.Context(), server)
	check.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	const dead, old = "test_1_5f_1", "template_0123abcd_20200102"
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + dead, "CREATE DATABASE " + dead, "CREATE DATABASE " + old + " IS_TEMPLATE true",
	} {
		_, err := conn.Exec(t.Context(), statement)
		check.NoError(t, err)
	}
	next := &databases{} // stands for another process
	check.NoError(t, next.join(server))
	defer func() { _ = next.life.Close(t.Context()) }()
	for name, want := range map[string]bool{dead: false, old: false, living: true, next.template: true} {
		var exists bool
		check.NoError(t, conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists))
		check.Equal(t, exists, want, "%s exists", name)
	}
}

func TestOnlyOwnTemplatesOfEarlierWeeksAreOld(t *testing.T) {
	for name, want := range map[string]bool{
		"template_0123abcd_20261119": true, "template_0123abcd_20251225": true, "template_0123abcd_20261126": false,
		"template_0123abcd_20261231": false, "template_postgis": false, "template_0123abcd_20": false, "template1": false,
	} {
		check.Equal(t, isOldTemplate(name, "20261126"), want, "%s", name)
	}
}

func TestEveryDatabaseHasItsOwnInstallation(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		var id string
		check.NoError(t, Database(t).QueryRow(t.Context(), "SELECT id::text FROM installation").Scan(&id))
		seen[id] = true
	}
	check.Equal(t, len(seen), 2, "IDs of two databases, %v", seen)
}

func pgxDatabase(t *testing.T, address string) string {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	check.NoError(t, err)
	return config.Database
}
