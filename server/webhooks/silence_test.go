package webhooks

import (
	"net/http"
	"testing"

	"examprep.dev/server/postgres/webhooksdb"
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
	w := b.workerOf(t, b.brisk(t, r), pool, b.keyring)
	testkit.Run(t, w.Run)
	b.fill(t, endpoint.ID, 1)
	r.Next(t)
	b.until(t, 1, inState, "delivered")
	proxy.Silence()
	b.fill(t, endpoint.ID, 1)
	r.Next(t)
	b.until(t, 2, inState, "delivered")
}

func TestAReceiverThatIsGoneIsDisabledWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	_, endpoint := b.endpoint(t, r.URL)
	w := b.worker(t, r)
	gone := result{row: webhooksdb.LeaseRow{EndpointID: endpoint.ID}, outcome: outcome{status: http.StatusGone, failure: "status"}}
	if err := b.pool.QueryRow(t.Context(), "SELECT updated_at FROM webhook_endpoints").Scan(&gone.row.UpdatedAt); err != nil {
		t.Fatal(err)
	}
	restore := testkit.CutOff(t, b.pool)
	w.noteHealth(t.Context(), []result{gone})
	restore()
	w.noteHealth(t.Context(), nil) // with the next outcome, whosever it is
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE id = $1 AND status = 'disabled'", endpoint.ID)
}
