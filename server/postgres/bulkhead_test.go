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
	address := testkit.DatabaseURL(t)
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
			t.Parallel()
			registry := prometheus.NewRegistry()
			b := postgres.NewBulkhead(registry, testkit.Open(t, address+"&pool_max_conns="+c.pool), c.limit)
			owner, other := uuid.UUID{15: 1}, uuid.UUID{15: 2}
			leave := make([]func(), c.want)
			for i := range leave {
				var err error
				leave[i], err = b.Enter(t.Context(), postgres.HistoryReads, owner)
				check.NoError(t, err)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if _, err := b.Enter(ended, postgres.DeveloperReads, owner); !errors.Is(err, context.Canceled) || !postgres.Unavailable(err) {
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
			for _, leave := range leave {
				leave()
			}
			check.NoError(t, <-entered)
			if waits("history") != 1 || waits("developer") != 1 {
				t.Errorf("%d and %d calls waited, want 1 and 1", waits("history"), waits("developer"))
			}
		})
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
