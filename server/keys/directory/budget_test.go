package directory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestDirectoryAboveItsBudgetFailsTheStart(t *testing.T) {
	pool := testkit.Database(t)
	create(t, pool, "acme")
	insertKeys(t, pool, 5000)
	d := directory.New(directory.Config{Budget: 100_000, BudgetSetting: "--key-directory-bytes"}, pool)
	defer d.Close()
	err := d.Run(t.Context())
	var tooLarge *directory.TooLargeError
	if !errors.As(err, &tooLarge) || !strings.Contains(err.Error(), "--key-directory-bytes") {
		t.Errorf("got %v, want a TooLargeError with the setting", err)
	}
}

func TestPodReportsItsDirectory(t *testing.T) {
	pool := testkit.Database(t)
	start(t, pool, directory.Config{Budget: 1 << 20, Timings: busy()})
	used := func() int64 { return testkit.Get[int64](t, pool, "SELECT used FROM api_pods") }
	check.Equal(t, testkit.Get[int64](t, pool, "SELECT budget FROM api_pods"), 1<<20, "budget")
	before := used()
	create(t, pool, "acme")
	testkit.Eventually(t, "the pod reports that it has grown", func() bool { return used() > before && before > 0 })
}

// insertKeys adds n keys to account acme in one statement, without a change for each.
func insertKeys(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	exec(t, pool, `ALTER TABLE api_keys DISABLE TRIGGER api_keys_changed`)
	exec(t, pool, `INSERT INTO api_keys (id, account_id, prefix, family_id, hash)
		SELECT g.id, a.id, 'service_' || lpad(to_hex(n), 8, '0'), g.id, sha256(convert_to(n::text, 'UTF8'))
		FROM set_config('examprep.bulk_changes', 'on', true), accounts a, generate_series(1, $1::int) n,
			LATERAL (SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) g
		WHERE a.name = 'acme'`, n)
	exec(t, pool, `ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_changed`)
}

func TestKeyTakesAtMost100Bytes(t *testing.T) {
	pool := testkit.Database(t)
	create(t, pool, "acme")
	const n = 100_000
	insertKeys(t, pool, n)
	registry := prometheus.NewRegistry()
	start(t, pool, directory.Config{Registerer: registry})
	families, err := registry.Gather()
	check.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	each := values["examprep_keys_directory_bytes"] / values["examprep_keys_live"]
	t.Logf("%.1f bytes a key", each)
	if values["examprep_keys_live"] != n+1 || each > 100 {
		t.Errorf("%v keys take %.1f bytes each, want %d keys and at most 100", values["examprep_keys_live"], each, n+1)
	}
}
