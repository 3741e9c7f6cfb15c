package webhooks

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func (b *bench) detail(t *testing.T, account, endpoint uuid.UUID) EndpointDetail {
	t.Helper()
	detail, err := b.endpoints.Get(t.Context(), account, endpoint)
	check.NoError(t, err)
	return detail
}

func TestEndpointIsShownWithItsBacklog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	other := b.otherEndpoint(t, account)
	if got := b.detail(t, account, endpoint.ID); got.Pending != 0 || got.OldestPendingAt != nil || got.FailedSince != 0 {
		t.Errorf("without a delivery: %+v", got)
	}
	for range 7 {
		b.scoredBy(t, account)
	}
	ids := testkit.List[uuid.UUID](t, b.pool, "SELECT id FROM webhook_deliveries WHERE endpoint_id = $1 ORDER BY id", endpoint.ID)
	b.end(t, ids[0], "failed", 3*time.Hour)
	b.end(t, ids[1], "failed", time.Hour)
	b.end(t, ids[2], "failed", time.Hour) // it was sent again
	b.end(t, ids[3], "cancelled", time.Hour)
	b.end(t, ids[4], "delivered", 2*time.Hour)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET superseded = true WHERE id = $1", ids[2])
	// The one that is due first is not the oldest.
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour', created_at = now() - interval '1 day' WHERE id = $1", ids[5])
	oldest := testkit.Get[time.Time](t, b.pool, "SELECT created_at FROM webhook_deliveries WHERE id = $1", ids[5])
	got := b.detail(t, account, endpoint.ID)
	if got.Pending != 2 || got.OldestPendingAt == nil || !got.OldestPendingAt.Equal(oldest) || got.FailedSince != 2 {
		t.Errorf("before a success: %+v, want 2 pending since %s, and 2 failed", got, oldest)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET last_success_at = now() - interval '2 hours' WHERE id = $1", endpoint.ID)
	check.Equal(t, b.detail(t, account, endpoint.ID).FailedSince, 1, "failed since the last success")
	list, err := b.endpoints.List(t.Context(), account)
	if err != nil || len(list) != 2 || list[0].ID != other || list[0].Pending != 7 || list[1].ID != endpoint.ID || list[1].Pending != 2 || list[1].FailedSince != 1 {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// TestBacklogIsCountedUpToItsLimit has more of everything than is counted among very many deliveries that have arrived or were
// cancelled.
func TestBacklogIsCountedUpToItsLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	const others, more = 20_000, 3 * MaxCounted
	for state, n := range map[State]int{StateDelivered: others, StateCancelled: others, StatePending: more, StateFailed: more} {
		b.fill(t, account, endpoint.ID, KindScored, state, n)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now(), last_success_at = now() - interval '1 hour'")
	testkit.UnderEachPlan(t, b.pool, "webhook_deliveries, webhook_endpoints", func(tx pgx.Tx, how string) {
		q := webhooksdb.New(tx)
		check.NoError(t, q.ReadByIndex(t.Context()))
		before := testkit.RowsRead(t, tx, "webhook_deliveries")
		list, err := details(t.Context(), q, account, uuid.NullUUID{})
		if err != nil || len(list) != 1 || list[0].Pending != MaxCounted || list[0].FailedSince != MaxCounted {
			t.Errorf("%s: %+v, %v, want %d of each", how, list, err, MaxCounted)
		}
		overview, err := overviewOf(t.Context(), q, account)
		if err != nil || len(overview.Failing) != 1 || overview.Failing[0].Pending != MaxCounted {
			t.Errorf("%s: %+v, %v, want %d pending", how, overview, err, MaxCounted)
		}
		if read, most := testkit.RowsRead(t, tx, "webhook_deliveries")-before, 3*MaxCounted+100; read > most {
			t.Errorf("%s: %d rows are read, want %d at most", how, read, most)
		}
	})
}

func TestOverviewSortsEndpointsByTheirHealth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, healthy := b.registered(t, "https://receiver.example.com/healthy")
	if got, err := b.endpoints.Overview(t.Context(), b.account(t)); err != nil || got.Healthy != 0 || len(got.Failing)+len(got.Disabled) != 0 {
		t.Errorf("of an account without endpoints: %+v, %v", got, err)
	}
	b.registered(t, "https://receiver.example.com/another-account")
	short, long, off := b.otherEndpoint(t, account), b.otherEndpoint(t, account), b.otherEndpoint(t, account)
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now() - interval '1 minute', last_status = 503, last_failure = 'status' WHERE id = $1", short)
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now() - interval '1 hour', last_failure = 'timeout' WHERE id = $1", long)
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now(), status = 'disabled', disabled_reason = 'for a test' WHERE id = $1", off)
	b.fill(t, account, short, KindScored, StatePending, 3)
	b.fill(t, account, healthy.ID, KindScored, StatePending, 1)
	got, err := b.endpoints.Overview(t.Context(), account)
	check.NoError(t, err)
	for i := range got.Failing {
		got.Failing[i].FailingSince = time.Time{}
	}
	const url = "https://receiver.example.com/"
	want := Overview{
		Healthy:  1,
		Failing:  []FailingEndpoint{{ID: long, URL: url, LastFailure: "timeout"}, {ID: short, URL: url, LastStatus: 503, LastFailure: "status", Pending: 3}},
		Disabled: []DisabledEndpoint{{ID: off, URL: url, Reason: "for a test"}},
	}
	check.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want), "overview")
	for status, lists := range map[string]func(Overview) (int, int){
		StatusEnabled:  func(o Overview) (int, int) { return len(o.Failing), 2 },
		StatusDisabled: func(o Overview) (int, int) { return len(o.Disabled), 1 },
	} {
		testkit.Exec(t, b.pool, `INSERT INTO webhook_endpoints (id, account_id, url, events, status, disabled_reason, failing_since, managed_by)
			SELECT gen_random_uuid(), $1, 'x', '{x}', $2, 'x', now(), $2 || n FROM generate_series(1, $3::int) n`, account, status, MaxListed)
		more, err := b.endpoints.Overview(t.Context(), account)
		check.NoError(t, err)
		listed, before := lists(more)
		if listed != MaxListed {
			t.Errorf("%d %s endpoints are listed of %d, want %d", listed, status, MaxListed+before, MaxListed)
		}
	}
}
