package attempts

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	// crashesVariable sets how often PostgreSQL is killed between the statement of a batch of opens and its flush.
	crashesVariable = "ATTEMPTS_TEST_CRASHES"
	// cutsVariable sets how often a proxy cuts all connections there.
	cutsVariable = "ATTEMPTS_TEST_CUTS"
	// batchesAtOnce is the number of batches that run at once. The interruption comes between statement and flush of one of them, and at
	// any moment of the others.
	batchesAtOnce = 4
)

// answeredOpens has the attempts whose opens were answered.
type answeredOpens struct {
	mu  sync.Mutex
	ids []uuid.UUID
	// failed is how many batches were not answered.
	failed int
}

// open runs batchesAtOnce batches of opens, and calls interrupt after the first statement of one of them.
func (a *answeredOpens) open(t *testing.T, pool *pgxpool.Pool, interrupt func()) {
	t.Helper()
	db := &interrupted{Pool: pool, after: interrupt}
	var batches sync.WaitGroup
	for range batchesAtOnce {
		batches.Go(func() {
			calls := threeOpens()
			_, err := statements{attemptsdb.New(db), "0"}.openMany(t.Context(), calls)
			a.mu.Lock()
			defer a.mu.Unlock()
			if err != nil {
				a.failed++
				return
			}
			for _, call := range calls {
				a.ids = append(a.ids, call.ID)
			}
		})
	}
	batches.Wait()
}

// verify reports answered opens whose attempts do not exist.
func (a *answeredOpens) verify(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	stored := testkit.Get[int](t, pool, "SELECT count(*)::int FROM attempts WHERE id = ANY ($1)", a.ids)
	t.Logf("%d opens were answered, and %d batches were not; %d of the answered attempts exist", len(a.ids), a.failed, stored)
	if stored != len(a.ids) || len(a.ids) == 0 {
		t.Errorf("%d of %d answered attempts are missing", len(a.ids)-stored, len(a.ids))
	}
}

// TestNoAnsweredOpenIsMissingAfterCrashes kills PostgreSQL between the statement of a batch and its flush, again and again. Before that,
// it opens attempts that nothing but their own flush writes to disk.
func TestNoAnsweredOpenIsMissingAfterCrashes(t *testing.T) {
	testkit.Soak(t)
	server := testkit.StartPostgres(t)
	check.NoError(t, postgres.Migrate(t.Context(), server.URL, postgres.Sandbox))
	pool := testkit.Open(t, server.URL)
	answered := &answeredOpens{}
	for range testkit.Size(t, crashesVariable, 3) {
		crash := crasher(t, pool)
		answered.open(t, pool, func() {})
		answered.open(t, pool, crash)
	}
	answered.verify(t, pool)
}

// TestNoAnsweredOpenIsMissingAfterCuts cuts all connections between the statement of a batch and its flush, again and again.
func TestNoAnsweredOpenIsMissingAfterCuts(t *testing.T) {
	testkit.Soak(t)
	url := testkit.DatabaseURL(t)
	proxy := testkit.StartProxy(t, url, testkit.ProxyOptions{})
	pool := testkit.Open(t, proxy.URL)
	answered := &answeredOpens{}
	for range testkit.Size(t, cutsVariable, 20) {
		answered.open(t, pool, func() {})
		answered.open(t, pool, func() { proxy.Cut(false) })
	}
	answered.verify(t, testkit.Open(t, url))
}
