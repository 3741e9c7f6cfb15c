package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestBulkheadBoundsEachOwner: an owner has its limit, calls of both kinds together, and takes nothing from another one.
func TestBulkheadBoundsEachOwner(t *testing.T) {
	t.Parallel()
	const limit = 3
	registry := prometheus.NewRegistry()
	b := postgres.NewBulkhead(registry, limit)
	owner, other := uuid.UUID{15: 1}, uuid.UUID{15: 2}
	var leave [limit]func()
	for i := range limit {
		var err error
		leave[i], err = b.Enter(t.Context(), postgres.HistoryReads, owner)
		check.NoError(t, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.Enter(ended, postgres.DeveloperReads, owner); !errors.Is(err, context.Canceled) || !postgres.Away(err) {
		t.Errorf("one more, with a context that has ended: %v", err)
	}
	elsewhere, err := b.Enter(ended, postgres.HistoryReads, other)
	check.NoError(t, err) // it does not wait
	elsewhere()

	entered := make(chan error, 1)
	go func() {
		next, err := b.Enter(t.Context(), postgres.HistoryReads, owner)
		if err == nil {
			next()
		}
		entered <- err
	}()
	waits := func(reads string) int {
		return int(testkit.Metric(t, registry, "examprep_postgres_family_waits_total", map[string]string{"reads": reads}))
	}
	testkit.Eventually(t, "the next call waits", func() bool { return waits("history") == 1 })
	select {
	case err := <-entered:
		t.Fatalf("the next call entered: %v", err)
	default:
	}
	leave[1]()
	check.NoError(t, <-entered)
	leave[0]()
	leave[2]()
	if waits("history") != 1 || waits("developer") != 1 {
		t.Errorf("%d and %d calls waited, want 1 and 1", waits("history"), waits("developer"))
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
	full := testkit.Open(t, testkit.DatabaseURL(t)+"&pool_max_conns=2&pool_min_conns=2", postgres.Setting{Name: "work_mem", Value: "5MB"})
	for range 2 {
		conn, err := full.Acquire(t.Context())
		check.NoError(t, err)
		defer conn.Release()
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
