package webhooks

import (
	"testing"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
)

// However long the backlog is, and in whatever order its rows lie: what autoscaling reads is the age of the oldest.
func TestTheOldestDueDeliveryIsSeenInALongBacklog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://receiver.example.com/")
	b.fill(t, endpoint.ID, 50)
	last := b.made(t)[49]
	testkit.Exec(t, b.pool, `UPDATE webhook_deliveries
		SET next_attempt_at = now() - interval '1 hour', relay_at = now() - interval '1 hour' WHERE id = $1`, last)
	backlog, err := webhooksdb.New(b.pool).Backlog(t.Context(), 10)
	if err != nil || backlog.Due != 10 || backlog.Waiting != 0 || backlog.OldestDueSeconds < 3600 {
		t.Errorf("backlog %+v, %v, want 10 due, the oldest for an hour", backlog, err)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET next_attempt_at = now() + interval '1 hour', relay_at = now() + interval '1 hour'")
	if backlog, err = webhooksdb.New(b.pool).Backlog(t.Context(), 100); err != nil || backlog.Due != 0 || backlog.Waiting != 50 || backlog.OldestDueSeconds != 0 {
		t.Errorf("backlog %+v, %v, want 50 that wait for their retry, none due", backlog, err)
	}
}
