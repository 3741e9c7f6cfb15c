package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestACopyOfADatabaseBecomesAnInstallationOfItsOwn(t *testing.T) {
	t.Parallel()
	address := testkit.DatabaseURL(t)
	pool := testkit.Open(t, address)
	read := func() postgres.Installation {
		installation, err := postgres.ReadInstallation(t.Context(), pool, postgres.Sandbox)
		check.NoError(t, err)
		return installation
	}
	original := read()
	testkit.Exec(t, pool, "INSERT INTO api_pods (id, applied) VALUES (gen_random_uuid(), 1)")
	if _, err := postgres.ReplaceInstallation(t.Context(), address, postgres.Sandbox); !errors.As(err, new(*postgres.RunningError)) {
		t.Errorf("while a pod renews: got %v, want a RunningError", err)
	}
	testkit.Exec(t, pool, "UPDATE api_pods SET renewed_at = now() - interval '2 minutes'")
	if _, err := postgres.ReplaceInstallation(t.Context(), address, postgres.Production); !errors.As(err, new(*postgres.EnvironmentError)) {
		t.Errorf("of another environment: got %v, want an EnvironmentError", err)
	}
	check.Equal(t, read(), original, "installation")
	replaced, err := postgres.ReplaceInstallation(t.Context(), address, postgres.Sandbox)
	check.NoError(t, err)
	check.Equal(t, read(), replaced, "installation")
	if replaced.ID == original.ID || replaced.Environment != original.Environment {
		t.Errorf("got %+v for %+v", replaced, original)
	}
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM api_pods"), 0, "pods of the original")
}

// TestOfSeveralServersThePrimaryIsUsed names one server by two names. The database plays a standby.
func TestOfSeveralServersThePrimaryIsUsed(t *testing.T) {
	t.Parallel()
	address := testkit.DatabaseURL(t)
	pool := testkit.Open(t, address)
	cfg := pool.Config().ConnConfig
	port := fmt.Sprintf(":%d", cfg.Port)
	testkit.Exec(t, pool, "ALTER DATABASE "+pgx.Identifier{cfg.Database}.Sanitize()+" SET default_transaction_read_only = on")
	for _, c := range []struct {
		hosts, attributes string
		refused           bool
	}{{"127.0.0.1", "", false}, {"127.0.0.1,localhost", "", true}, {"127.0.0.1,localhost", "&target_session_attrs=read-only", false}} {
		servers := strings.ReplaceAll(c.hosts, ",", port+",") + port
		opened, err := postgres.Open(t.Context(), strings.Replace(address, "127.0.0.1"+port, servers, 1)+c.attributes, postgres.Options{})
		if err == nil {
			opened.Close()
		}
		if (err != nil) != c.refused {
			t.Errorf("%s%s: %v", c.hosts, c.attributes, err)
		}
	}
}
