package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/api/client"
	"examprep.dev/server/audit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

func TestATestEventAndARedeliveryArrive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), webhooks.Registration{AccountID: account, URL: r.URL, Events: []webhooks.Kind{webhooks.KindScored}})
	check.NoError(t, err)
	testkit.Run(t, b.worker(t, r).Run)
	sent, err := b.deliveries.Test(t.Context(), account, made.ID, time.Now())
	check.NoError(t, err)
	first := r.Next(t)
	var body struct {
		Event webhooks.Kind     `json:"event"`
		Data  webhooks.TestSent `json:"data"`
	}
	if err := json.Unmarshal(first.Body, &body); err != nil || body.Event != webhooks.KindTest || body.Data.EndpointID != made.ID {
		t.Errorf("body %s: %v", first.Body, err)
	}
	b.until(t, 1, inState, "delivered")
	again, err := b.deliveries.Redeliver(t.Context(), account, made.ID, sent)
	check.NoError(t, err)
	if second := r.Next(t); second.Header.Get("Webhook-Id") != first.Header.Get("Webhook-Id") || !bytes.Equal(second.Body, first.Body) {
		t.Error("the redelivery differs from the delivery")
	}
	b.until(t, 2, inState, "delivered")
	page, err := b.deliveries.List(t.Context(), account, made.ID, webhooks.DeliveryFilter{}, 1)
	if newest := page.Deliveries; err != nil || !page.More || len(newest) != 1 || newest[0].ID != again || newest[0].LastStatus != 200 ||
		newest[0].Attempts != 1 || newest[0].Kind != webhooks.KindTest {
		t.Errorf("newest delivery %+v, %v", page, err)
	}
	page, err = b.deliveries.List(t.Context(), account, made.ID, webhooks.DeliveryFilter{Before: uuid.NullUUID{UUID: again, Valid: true}}, 10)
	if err != nil || page.More || len(page.Deliveries) != 1 || page.Deliveries[0].ID != sent {
		t.Errorf("next page %+v, %v", page, err)
	}
}

func TestHoweverOftenASecretIsRotatedTwoSign(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	account := b.account(t)
	made, secret, err := b.endpoints.Register(t.Context(), webhooks.Registration{AccountID: account, URL: r.URL, Events: webhooks.Kinds()})
	check.NoError(t, err)
	var before string
	for range 5 {
		before = secret
		if secret, err = b.endpoints.RotateSecret(t.Context(), account, made.ID); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Run(t, b.worker(t, r).Run)
	b.fill(t, made.ID, 1)
	got := r.Next(t)
	if n := strings.Count(got.Header.Get(webhooks.SignatureHeader), "v1="); n != 2 {
		t.Errorf("%d signatures, want 2", n)
	}
	for _, secret := range []string{before, secret} {
		if err := client.Verify(got.Header.Get(webhooks.SignatureHeader), got.Body, secret, time.Now(), client.Tolerance); err != nil {
			t.Error(err)
		}
	}
}

func TestARotationIsTheWayOutOfALostEncryptionKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), webhooks.Registration{AccountID: account, URL: r.URL + "/own", Events: webhooks.Kinds()})
	check.NoError(t, err)
	want, managed := b.endpoint(t, r.URL+"/managed")
	testkit.Exec(t, b.pool, "UPDATE webhook_secrets SET key_id = 'lost'")
	if _, err := b.endpoints.RotateSecret(t.Context(), account, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.managed.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, b.worker(t, r).Run)
	for _, endpoint := range []uuid.UUID{made.ID, managed.ID} {
		b.fill(t, endpoint, 1)
		r.Next(t)
	}
}

// The receiver's owner repairs it after an outage, enables the endpoint, and recovers its deliveries.
func TestWhatAnOutageCancelledArrivesByARecovery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusGone)
		}
	})
	account, endpoint := b.registered(t, r.URL)
	began := time.Now().Add(-time.Minute)
	events := []string{b.scoredBy(t, account).ID.String()}
	stop := testkit.Run(t, b.worker(t, r).Run)
	r.Next(t)
	b.until(t, 1, "SELECT count(*) FROM webhook_endpoints WHERE status = 'disabled'")
	stop()
	if _, err := b.endpoints.Update(t.Context(), account, endpoint.ID, webhooks.Change{Enabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	events = append(events, b.scoredBy(t, account).ID.String())
	testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET state = 'cancelled', finished_at = now() WHERE id = $1", b.ids(t)[1])
	acting := audit.WithActor(t.Context(), audit.Actor{Kind: audit.Developer, Name: "https://id.example#ada", RequestID: "r"})
	recovery, err := b.deliveries.Recover(acting, account, endpoint.ID, began)
	if err != nil || recovery != (webhooks.Recovery{Deliveries: 2}) {
		t.Fatalf("recovered %+v, %v, want 2", recovery, err)
	}
	testkit.Run(t, b.worker(t, r).Run)
	arrived := []string{r.Next(t).Header.Get("Webhook-Id"), r.Next(t).Header.Get("Webhook-Id")}
	slices.Sort(arrived)
	if slices.Sort(events); !slices.Equal(arrived, events) {
		t.Errorf("arrived %v, want %v", arrived, events)
	}
	b.until(t, 0, inState, "pending")
	want := map[string]any{"since": began.UTC().Format(time.RFC3339Nano), "deliveries": 2.0, "more": false}
	detail := testkit.Get[map[string]any](t, b.pool, "SELECT detail FROM audit_log WHERE action = 'webhook.recover' AND target = $1", endpoint.ID.String())
	if !reflect.DeepEqual(detail, want) {
		t.Errorf("recorded %v, want %v", detail, want)
	}
}

func TestAMovedEndpointTakesNothingOfTheFormerAccountAlong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := testkit.StartReceiver(t, nil)
	ada, bob := b.account(t), b.account(t)
	want := webhooks.ManagedEndpoint{
		Owner: "c/ns/n", URL: r.URL, Events: webhooks.Kinds(), Secret: webhooks.NewSecret(), Account: uuid.NullUUID{UUID: ada, Valid: true},
	}
	adas, err := b.managed.Apply(t.Context(), want)
	check.NoError(t, err)
	b.scoredBy(t, ada)
	before, err := b.deliveries.List(t.Context(), ada, adas.ID, webhooks.DeliveryFilter{}, 10)
	if err != nil || len(before.Deliveries) != 1 {
		t.Fatalf("before the move: %+v, %v", before, err)
	}
	want.Account.UUID = bob
	bobs, err := b.managed.Apply(t.Context(), want)
	if err != nil || bobs.ID == adas.ID || bobs.AccountID.UUID != bob || bobs.Status != webhooks.StatusEnabled {
		t.Fatalf("moved to %+v, %v", bobs, err)
	}
	if again, err := b.managed.Apply(t.Context(), want); err != nil || again.ID != bobs.ID {
		t.Errorf("applied again: %+v, %v", again, err)
	}
	if page, err := b.deliveries.List(t.Context(), bob, bobs.ID, webhooks.DeliveryFilter{}, 10); err != nil || len(page.Deliveries) != 0 {
		t.Errorf("the next account sees %+v, %v", page, err)
	}
	if _, err := b.deliveries.Redeliver(t.Context(), bob, bobs.ID, before.Deliveries[0].ID); !errors.As(err, new(*webhooks.NotFoundError)) {
		t.Errorf("the next account resends: got %v, want a webhooks.NotFoundError", err)
	}
	event := b.scoredBy(t, bob)
	testkit.Run(t, b.worker(t, r).Run)
	if got := r.Next(t); !bytes.Equal(got.Body, event.Body) {
		t.Errorf("arrived %s, want %s", got.Body, event.Body)
	}
	b.until(t, 1, inState, "delivered")
	b.until(t, 1, inState, "cancelled")
}
