package delivery

import (
	"net/http"
	"testing"
	"time"

	"examprep.dev/server/testkit"
)

func TestRelayingGoesOnAfterPostgresConnectionsWentSilent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	proxy := testkit.StartProxy(t, b.pool.Config().ConnString(), testkit.ProxyOptions{})
	pool := testkit.Open(t, proxy.URL)
	t.Cleanup(func() { proxy.Cut(true) }) // before the pool closes silent connections, which takes long
	cfg := b.config(t, r)
	cfg.Timeout, cfg.LeaseGrace, cfg.StatementTimeout = 3*time.Second, time.Second, storeTimeout // a lost lease ends after 4 s
	testkit.Run(t, b.workerOf(t, cfg, pool, b.keyring).Run)
	b.fill(t, endpoint.ID, 1)
	r.Next(t)
	b.until(t, 1, inState, "delivered")
	proxy.Silence()
	b.fill(t, endpoint.ID, 1)
	// If the wake-up is lost, a sweep finds the event. A silent connection costs a sweep its whole time, and so may the next one.
	testkit.Eventually(t, "the second event is delivered", func() bool { return testkit.Get[int](t, b.pool, inState, "delivered") == 2 })
	r.Next(t)
}

func TestAReceiverThatIsGoneIsDisabledWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	health := b.worker(t, r).health
	gone := attemptedAt(endpoint.ID, result{status: http.StatusGone, failure: "status"})
	if err := b.pool.QueryRow(t.Context(), "SELECT updated_at FROM webhook_endpoints").Scan(&gone[0].row.UpdatedAt); err != nil {
		t.Fatal(err)
	}
	restore := testkit.CutOff(t, b.pool)
	health.record(gone)
	if err := health.flush(t.Context()); err == nil {
		t.Error("health was recorded without PostgreSQL")
	}
	restore()
	testkit.Eventually(t, "health is recorded", func() bool { return health.flush(t.Context()) == nil })
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'disabled'", endpoint.ID)
}
