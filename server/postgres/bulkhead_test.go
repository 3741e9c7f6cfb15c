package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestBulkheadBoundsEachOwner: an owner has its limit, calls of both kinds together, and takes nothing from another one.
func TestBulkheadBoundsEachOwner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pool  string
		limit uint
		want  int
	}{
		"a limit":                   {"8", 3, 3},
		"a quarter of the pool":     {"8", 0, 2},
		"at least one connection":   {"2", 0, 1},
		"a limit of more than all":  {"2", 5, 5},
		"a quarter that is rounded": {"7", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { boundsEachOwner(t, c.pool, c.limit, c.want) })
		})
	}
}

// boundsEachOwner tests a bulkhead in front of a pool that never connects.
func boundsEachOwner(t *testing.T, connections string, limit uint, want int) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none?pool_max_conns="+connections)
	check.NoError(t, err)
	defer pool.Close()
	registry := prometheus.NewRegistry()
	b := postgres.NewBulkhead(registry, pool, limit)
	owner, other := uuid.UUID{15: 1}, uuid.UUID{15: 2}
	leave := make([]func(), want)
	for i := range leave {
		leave[i], err = b.Enter(t.Context(), postgres.HistoryReads, owner)
		check.NoError(t, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.Enter(ended, postgres.DeveloperCalls, owner); !errors.Is(err, context.Canceled) || !postgres.Unavailable(err) {
		t.Errorf("one more, with a context that has ended: %v", err)
	}
	elsewhere, err := b.Enter(ended, postgres.HistoryReads, other)
	check.NoError(t, err) // it does not wait
	elsewhere()

	entered := false
	go func() {
		next, err := b.Enter(t.Context(), postgres.HistoryReads, owner)
		check.Succeeds(t, err, "the next call")
		entered = err == nil
		if entered {
			next()
		}
	}()
	const wait = 7 * time.Second
	<-time.After(wait)
	synctest.Wait()
	if entered {
		t.Error("the next call entered beside as many as there may be")
	}
	for _, leave := range leave {
		leave()
	}
	synctest.Wait()
	if !entered {
		t.Error("the next call waits still")
	}
	for name, want := range map[string]float64{
		"waits_total history": 1, "waits_total developer": 1, "wait_seconds_total history": wait.Seconds(), "wait_seconds_total developer": 0,
	} {
		metric, reads, _ := strings.Cut(name, " ")
		check.Equal(t, testkit.Metric(t, registry, "examprep_postgres_family_"+metric, map[string]string{"reads": reads}), want, "%s", name)
	}
}

func TestNoBulkheadBoundsNothing(t *testing.T) {
	t.Parallel()
	var b *postgres.Bulkhead
	for range 1000 {
		_, err := b.Enter(t.Context(), postgres.HistoryReads, uuid.UUID{})
		check.NoError(t, err)
	}
}

// TestSeparatePoolAnswersBesideAFullOne: with the settings of the other pool but its size.
func TestSeparatePoolAnswersBesideAFullOne(t *testing.T) {
	t.Parallel()
	full := testkit.Open(t, testkit.DatabaseURL(t)+"&pool_max_conns=2&pool_min_conns=2", map[string]string{"work_mem": "5MB"})
	for range 2 {
		testkit.Begin(t, full)
	}
	separate, err := postgres.Separate(t.Context(), full, 1)
	check.NoError(t, err)
	defer separate.Close()
	if got := testkit.Get[string](t, separate, "SHOW work_mem"); got != "5MB" {
		t.Errorf("work_mem is %s, want the other pool's", got)
	}
	check.NoError(t, postgres.Ping(t.Context(), separate))
	if stat := separate.Stat(); stat.MaxConns() != 1 || stat.TotalConns() != 1 {
		t.Errorf("%d of %d connections", stat.TotalConns(), stat.MaxConns())
	}
}
