package delivery

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// However long the backlog is, and in whatever order its rows lie: autoscaling reads the age of the oldest.
func TestTheOldestDueDeliveryIsSeenInALongBacklog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 50)
	w := b.worker(t)
	gauges := func(bound int32, wantDue, wantWaiting int64, least float64) {
		t.Helper()
		backlog, err := webhooksdb.New(b.pool).Backlog(t.Context(), bound)
		if err != nil || backlog.Due != wantDue || backlog.Waiting != wantWaiting {
			t.Errorf("backlog %+v, %v, want %d due and %d waiting", backlog, err, wantDue, wantWaiting)
		}
		check.NoError(t, w.sweeper.sweep(t.Context()))
		for name, age := range map[string]float64{
			"oldest": testutil.ToFloat64(w.sweeper.metrics.oldestDue), "lag": testutil.ToFloat64(w.sweeper.metrics.outboxLag),
		} {
			if age < least || least == 0 && age > 0 {
				t.Errorf("%s %v seconds, want %v", name, age, least)
			}
		}
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 hour' WHERE id = $1", b.ids(t)[49])
	gauges(10, 10, 0, 3600)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour'")
	gauges(100, 0, 50, 0)
}

func TestTheLagIsThatOfEndpointsThatDoNotFail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 1)
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 hour'")
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET failing_since = now()")
	w := b.worker(t)
	check.NoError(t, w.sweeper.sweep(t.Context()))
	if lag, oldest := testutil.ToFloat64(w.sweeper.metrics.outboxLag), testutil.ToFloat64(w.sweeper.metrics.oldestDue); lag != 0 || oldest < 3600 {
		t.Errorf("lag %v, oldest %v", lag, oldest)
	}
}
