package catalogtest

import (
	"cmp"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// OpenPatientSnapshot opens a Snapshot for tests, without a log. Unless cfg says otherwise, its loads do not time out on a
// busy machine and it polls once an hour.
func OpenPatientSnapshot(t testing.TB, pool *pgxpool.Pool, cfg read.SnapshotConfig) *read.Snapshot {
	t.Helper()
	cfg.LoadTimeout, cfg.PollInterval = cmp.Or(cfg.LoadTimeout, testkit.Patience), cmp.Or(cfg.PollInterval, time.Hour)
	s, err := read.OpenSnapshot(t.Context(), pool, slog.New(slog.DiscardHandler), cfg)
	check.NoError(t, err)
	return s
}
