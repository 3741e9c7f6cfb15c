package webhooks

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestATestEventAndARedeliveryArrive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: r.URL, Events: []Kind{KindScored}})
	check.NoError(t, err)
	testkit.Run(t, b.worker(t, r).Run)
	sent, err := b.deliveries.Test(t.Context(), account, made.ID, time.Now())
	check.NoError(t, err)
	first := r.Next(t)
	var body struct {
		Event Kind     `json:"event"`
		Data  TestSent `json:"data"`
	}
	if err := json.Unmarshal(first.Body, &body); err != nil || body.Event != KindTest || body.Data.EndpointID != made.ID {
		t.Errorf("body %s: %v", first.Body, err)
	}
	again, err := b.deliveries.Redeliver(t.Context(), account, made.ID, sent)
	check.NoError(t, err)
	if second := r.Next(t); second.Header.Get("Webhook-Id") != first.Header.Get("Webhook-Id") || !bytes.Equal(second.Body, first.Body) {
		t.Error("the redelivery differs from the delivery")
	}
	b.until(t, 2, inState, "delivered")
	page, err := b.deliveries.List(t.Context(), account, made.ID, uuid.NullUUID{}, 1)
	if newest := page.Deliveries; err != nil || !page.More || len(newest) != 1 || newest[0].ID != again || newest[0].LastStatus != 200 ||
		newest[0].Attempts != 1 || newest[0].Kind != KindTest {
		t.Errorf("newest delivery %+v, %v", page, err)
	}
	page, err = b.deliveries.List(t.Context(), account, made.ID, uuid.NullUUID{UUID: again, Valid: true}, 10)
	if err != nil || page.More || len(page.Deliveries) != 1 || page.Deliveries[0].ID != sent {
		t.Errorf("next page %+v, %v", page, err)
	}
}

// scoredBy records an event of an account, which waits for a worker.
func (b *bench) scoredBy(t *testing.T, account uuid.UUID) Event {
	t.Helper()
	event, err := NewEvent(KindScored, uuid.NullUUID{UUID: account, Valid: true}, time.Now(), AttemptScored{AttemptID: uuid.NewString()})
	check.NoError(t, err)
	b.record(t, event)
	return event
}

func TestAMovedEndpointTakesNothingOfTheFormerAccountAlong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	ada, bob := b.account(t), b.account(t)
	want := ManagedEndpoint{
		Owner: "c/ns/n", URL: r.URL, Events: Kinds(), Secret: NewSecret(), Account: uuid.NullUUID{UUID: ada, Valid: true},
	}
	adas, err := b.managed.Apply(t.Context(), want)
	check.NoError(t, err)
	b.scoredBy(t, ada)
	before, err := b.deliveries.List(t.Context(), ada, adas.ID, uuid.NullUUID{}, 10)
	if err != nil || len(before.Deliveries) != 1 {
		t.Fatalf("before the move: %+v, %v", before, err)
	}
	want.Account.UUID = bob
	bobs, err := b.managed.Apply(t.Context(), want)
	if err != nil || bobs.ID == adas.ID || bobs.AccountID.UUID != bob || bobs.Status != StatusEnabled {
		t.Fatalf("moved to %+v, %v", bobs, err)
	}
	if again, err := b.managed.Apply(t.Context(), want); err != nil || again.ID != bobs.ID {
		t.Errorf("applied again: %+v, %v", again, err)
	}
	if page, err := b.deliveries.List(t.Context(), bob, bobs.ID, uuid.NullUUID{}, 10); err != nil || len(page.Deliveries) != 0 {
		t.Errorf("the next account sees %+v, %v", page, err)
	}
	if _, err := b.deliveries.Redeliver(t.Context(), bob, bobs.ID, before.Deliveries[0].ID); !is[*NotFoundError](err) {
		t.Errorf("the next account resends: got %v, want a NotFoundError", err)
	}
	event := b.scoredBy(t, bob)
	testkit.Run(t, b.worker(t, r).Run)
	if got := r.Next(t); !bytes.Equal(got.Body, event.Body) {
		t.Errorf("arrived %s, want %s", got.Body, event.Body)
	}
	b.until(t, 1, inState, "delivered")
	b.until(t, 1, inState, "cancelled")
}

func TestAMoveDoesNotEnableAReceiverThatFailedTooLong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
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
