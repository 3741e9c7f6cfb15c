package webhooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"examprep.dev/api/client"
)

func (b *bench) account(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	if _, err := b.pool.Exec(t.Context(), "INSERT INTO accounts (id, name) VALUES ($1, $2)", id, id.String()); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAnEndpointIsRegisteredChangedAndRemoved(t *testing.T) {
	b := newBench(t)
	account := b.account(t)
	made, secret, err := b.endpoints.Register(t.Context(), Registration{
		AccountID: account, URL: "https://receiver.example.com/a", Events: []Kind{KindScored}, Description: "gradebook",
	})
	if err != nil || secret == "" {
		t.Fatal(err)
	}
	url, off := "https://receiver.example.com/b", false
	changed, err := b.endpoints.Update(t.Context(), account, made.ID, Change{URL: &url, Events: []Kind{KindSubmitted}, Enabled: &off})
	if err != nil {
		t.Fatal(err)
	}
	if changed.URL != url || !slices.Equal(changed.Events, []Kind{KindSubmitted}) || changed.Description != "gradebook" ||
		changed.Status != StatusDisabled || changed.DisabledReason != reasonOwner {
		t.Errorf("changed to %+v", changed)
	}
	on := true
	if changed, err = b.endpoints.Update(t.Context(), account, made.ID, Change{Enabled: &on}); err != nil || changed.Status != StatusEnabled {
		t.Errorf("enabled again: %+v, %v", changed, err)
	}
	plain := "http://receiver.example.com"
	if _, err := b.endpoints.Update(t.Context(), account, made.ID, Change{URL: &plain}); !is[*ValidationError](err) {
		t.Errorf("without TLS: got %v, want a ValidationError", err)
	}
	if err := b.endpoints.Delete(t.Context(), account, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.endpoints.Get(t.Context(), account, made.ID); !is[*NotFoundError](err) {
		t.Errorf("after deletion: got %v, want a NotFoundError", err)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestAnothersEndpointIsNotThereAndAResourcesIsReadOnly(t *testing.T) {
	b := newBench(t)
	mine, theirs := b.account(t), b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: theirs, URL: "https://receiver.example.com", Events: Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	managed, err := b.endpoints.ApplyManaged(t.Context(), ManagedEndpoint{
		Owner: "c/ns/n", URL: "https://receiver.example.com", Events: Kinds(), Secret: NewSecret(),
		Account: uuid.NullUUID{UUID: mine, Valid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(id uuid.UUID) error{
		"update": func(id uuid.UUID) error { _, err := b.endpoints.Update(t.Context(), mine, id, Change{}); return err },
		"delete": func(id uuid.UUID) error { return b.endpoints.Delete(t.Context(), mine, id) },
		"rotate": func(id uuid.UUID) error { _, err := b.endpoints.RotateSecret(t.Context(), mine, id); return err },
	} {
		if err := call(made.ID); !is[*NotFoundError](err) {
			t.Errorf("%s another's: got %v, want a NotFoundError", name, err)
		}
		if err := call(managed.ID); !is[*ManagedError](err) {
			t.Errorf("%s a resource's: got %v, want a ManagedError", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"test":       func() error { _, err := b.endpoints.Test(t.Context(), mine, made.ID, time.Now()); return err },
		"deliveries": func() error { _, err := b.endpoints.Deliveries(t.Context(), mine, made.ID, uuid.Nil, 10); return err },
		"redeliver":  func() error { _, err := b.endpoints.Redeliver(t.Context(), mine, made.ID, uuid.New()); return err },
	} {
		if err := call(); !is[*NotFoundError](err) {
			t.Errorf("%s another's: got %v, want a NotFoundError", name, err)
		}
	}
}

func TestAnAccountHasSoManyEndpoints(t *testing.T) {
	b := newBench(t)
	account := b.account(t)
	register := func(n int) error {
		_, _, err := b.endpoints.Register(t.Context(), Registration{
			AccountID: account, URL: fmt.Sprintf("https://receiver.example.com/%d", n), Events: Kinds(),
		})
		return err
	}
	for n := range MaxEndpoints {
		if err := register(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := register(MaxEndpoints); !is[*ValidationError](err) {
		t.Errorf("got %v, want a ValidationError", err)
	}
}

func TestATestEventAndARedeliveryArrive(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: r.URL, Events: []Kind{KindScored}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, b.worker(t, r).Run)
	sent, err := b.endpoints.Test(t.Context(), account, made.ID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	first := r.next(t)
	var body struct {
		Event Kind     `json:"event"`
		Data  TestSent `json:"data"`
	}
	if err := json.Unmarshal(first.body, &body); err != nil || body.Event != KindTest || body.Data.EndpointID != made.ID {
		t.Errorf("body %s: %v", first.body, err)
	}
	again, err := b.endpoints.Redeliver(t.Context(), account, made.ID, sent)
	if err != nil {
		t.Fatal(err)
	}
	if second := r.next(t); second.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || !bytes.Equal(second.body, first.body) {
		t.Error("the redelivery differs from the delivery")
	}
	b.until(t, 2, inState, "delivered")
	page, err := b.endpoints.Deliveries(t.Context(), account, made.ID, uuid.Nil, 1)
	if err != nil || len(page) != 1 || page[0].ID != again || page[0].LastStatus != 200 || page[0].Attempts != 1 || page[0].Kind != KindTest {
		t.Errorf("newest delivery %+v, %v", page, err)
	}
	page, err = b.endpoints.Deliveries(t.Context(), account, made.ID, again, 10)
	if err != nil || len(page) != 1 || page[0].ID != sent {
		t.Errorf("next page %+v, %v", page, err)
	}
}

func TestHoweverOftenASecretIsRotatedTwoSign(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	account := b.account(t)
	made, secret, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: r.URL, Events: Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	var before string
	for range 5 {
		before = secret
		if secret, err = b.endpoints.RotateSecret(t.Context(), account, made.ID); err != nil {
			t.Fatal(err)
		}
	}
	run(t, b.worker(t, r).Run)
	b.fill(t, made.ID, 1)
	got := r.next(t)
	if n := strings.Count(got.header.Get(SignatureHeader), "v1="); n != 2 {
		t.Errorf("%d signatures, want 2", n)
	}
	for _, secret := range []string{before, secret} {
		if err := client.Verify(got.header.Get(SignatureHeader), got.body, secret, time.Now(), client.Tolerance); err != nil {
			t.Error(err)
		}
	}
}

func TestARotationIsTheWayOutOfALostEncryptionKey(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: r.URL + "/own", Events: Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	want, managed := b.endpoint(t, r.URL+"/managed")
	if _, err := b.pool.Exec(t.Context(), "UPDATE webhook_secrets SET key_id = 'lost'"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.endpoints.RotateSecret(t.Context(), account, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.endpoints.ApplyManaged(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	run(t, b.worker(t, r).Run)
	for _, endpoint := range []uuid.UUID{made.ID, managed.ID} {
		b.fill(t, endpoint, 1)
		r.next(t)
	}
}

func TestADeliveryWhoseTriesAllDiedWithTheirWorkersFails(t *testing.T) {
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	b.fill(t, endpoint.ID, 1)
	if _, err := b.pool.Exec(t.Context(), `UPDATE webhook_deliveries SET attempt = $1, lease = gen_random_uuid(),
		lease_until = now() - interval '1 second'`, maxAttempts); err != nil {
		t.Fatal(err)
	}
	w := b.worker(t)
	run(t, w.Run)
	b.until(t, 1, "SELECT count(*) FROM webhook_deliveries WHERE state = 'failed' AND last_error = 'worker_lost'")
	eventually(t, "it is counted", func() bool { return testutil.ToFloat64(w.metrics.lost) == 1 })
}
