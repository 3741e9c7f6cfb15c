package controllers

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// happen records n events for endpoints with exam events.
func (in *installation) happen(n int) {
	in.t.Helper()
	err := pgx.BeginFunc(in.t.Context(), in.pool, func(tx pgx.Tx) error {
		for i := range n {
			event, err := webhooks.NewEvent(webhooks.KindContentUpdated, uuid.NullUUID{}, time.Now(), webhooks.ContentUpdated{ExamKey: fmt.Sprint("xx-", i)})
			if err != nil {
				return err
			}
			_, err = tx.Exec(in.t.Context(), "SELECT webhook_record_event($1, $2, NULL, $3)", event.ID, string(event.Kind), event.Body)
			if err != nil {
				return err
			}
		}
		return nil
	})
	check.NoError(in.t, err)
}

// TestDeliveriesDoNotWriteTheStatus: the operator writes to the API server at most once a reconcile, however many deliveries
// there are and however often they begin to fail and to succeed. It reconciles every healthInterval, and writes nothing while
// an endpoint's health is unchanged.
func TestDeliveriesDoNotWriteTheStatus(t *testing.T) {
	t.Parallel()
	in := operating(t)
	r := newReceiver(t)
	in.deliver(r)
	endpoint := sampleEndpoint(r.URL)
	in.createReady(endpoint)
	const rounds, deliveries = 6, 50
	looks := 0
	look := func() {
		looks++
		in.reconcileNow(endpoint, fmt.Sprint("look ", looks))
	}
	in.writes.Store(0)
	for round := range rounds {
		if round%2 == 1 { // the first tries of this round fail
			r.Status.Store(http.StatusServiceUnavailable)
		}
		in.happen(deliveries)
		r.Next(t)
		look()
		r.Status.Store(http.StatusNoContent)
		for seen := 1; seen < deliveries; seen++ {
			r.Next(t)
		}
		look()
	}
	if writes := in.writes.Load(); writes > int64(looks) {
		t.Errorf("%d writes in %d looks at %d deliveries, want at most one a look", writes, looks, rounds*deliveries)
	}
	in.happen(1) // all tries of the last round can have failed before the receiver was repaired
	in.delivering(endpoint, "True", v1alpha1.ReasonDelivering)

	in.writes.Store(0)
	in.happen(deliveries)
	for range deliveries {
		r.Next(t)
	}
	if writes := in.writes.Load(); writes > 0 {
		t.Errorf("%d writes for %d deliveries that nobody asked about, want none", writes, deliveries)
	}
	look()
	check.Equal(t, in.writes.Load(), 1, "writes for a look at health that stayed as it was, which are the look's own")
}
