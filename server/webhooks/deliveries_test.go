package webhooks

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// scoredBy records an event of an account, which waits for a worker.
func (b *bench) scoredBy(t *testing.T, account uuid.UUID) Event {
	t.Helper()
	event, err := NewEvent(KindScored, uuid.NullUUID{UUID: account, Valid: true}, time.Now(), AttemptScored{AttemptID: uuid.NewString()})
	check.NoError(t, err)
	b.record(t, event)
	return event
}

func TestAMoveDoesNotEnableAReceiverThatFailedTooLong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const reasonFailing = "no delivery succeeded for 5 days"
	want, endpoint := b.endpoint(t, "https://receiver.example.com")
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET status = $1, disabled_reason = $2 WHERE id = $3",
		StatusDisabled, reasonFailing, endpoint.ID)
	want.Account = uuid.NullUUID{UUID: b.account(t), Valid: true}
	moved, err := b.managed.Apply(t.Context(), want)
	if err != nil || moved.AccountID != want.Account || moved.Status != StatusDisabled || moved.DisabledReason != reasonFailing {
		t.Errorf("moved to %+v, %v", moved, err)
	}
}

// Whatever way they got there: deliveries of another account's events are nobody else's to see.
func TestDeliveriesOfAnotherAccountsEventsAreNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ada, bob := b.account(t), b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: ada, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	b.scoredBy(t, ada)
	b.happen(t, 1)
	all, err := b.deliveries.List(t.Context(), ada, made.ID, uuid.NullUUID{}, 10)
	if err != nil || len(all.Deliveries) != 2 {
		t.Fatalf("the owner sees %+v, %v", all, err)
	}
	testkit.Exec(t, b.pool, "UPDATE webhook_endpoints SET account_id = $1", bob)
	page, err := b.deliveries.List(t.Context(), bob, made.ID, uuid.NullUUID{}, 10)
	if err != nil || len(page.Deliveries) != 1 || page.Deliveries[0].Kind != KindContentUpdated {
		t.Errorf("another sees %+v, %v, want what is everyone's", page, err)
	}
	i := slices.IndexFunc(all.Deliveries, func(d Delivery) bool { return d.Kind == KindScored })
	adas := all.Deliveries[i].ID
	if _, err := b.deliveries.Redeliver(t.Context(), bob, made.ID, adas); !is[*NotFoundError](err) {
		t.Errorf("resent: got %v, want a NotFoundError", err)
	}
	if _, err := b.deliveries.List(t.Context(), bob, made.ID, uuid.NullUUID{UUID: adas, Valid: true}, 10); !is[*ValidationError](err) {
		t.Errorf("as a cursor: got %v, want a ValidationError", err)
	}
}

func TestNothingIsSentToADisabledEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	b.scoredBy(t, account)
	page, err := b.deliveries.List(t.Context(), account, made.ID, uuid.NullUUID{}, 1)
	if err != nil || len(page.Deliveries) != 1 {
		t.Fatal(page, err)
	}
	if _, err := b.endpoints.Update(t.Context(), account, made.ID, Change{Enabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.deliveries.Test(t.Context(), account, made.ID, time.Now()); !is[*DisabledError](err) {
		t.Errorf("test: got %v, want a DisabledError", err)
	}
	if _, err := b.deliveries.Redeliver(t.Context(), account, made.ID, page.Deliveries[0].ID); !is[*DisabledError](err) {
		t.Errorf("redeliver: got %v, want a DisabledError", err)
	}
	if _, err := b.deliveries.Redeliver(t.Context(), account, made.ID, uuid.New()); !is[*NotFoundError](err) {
		t.Errorf("redeliver what is not there: got %v, want a NotFoundError", err)
	}
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries")
	b.until(t, 1, "SELECT count(*) FROM webhook_events")
}
