package webhooks

import (
	"context"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/audit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// recorded returns the actions of an account on an endpoint, with their details, in order.
func (b *bench) recorded(t *testing.T, account, endpoint uuid.UUID) (actions []string, details []map[string]any) {
	t.Helper()
	var action string
	var detail map[string]any
	testkit.ForEach(t, b.pool, []any{&action, &detail}, func() {
		actions, details = append(actions, action), append(details, detail)
		detail = nil
	}, "SELECT action, detail FROM audit_log WHERE account_id = $1 AND target = $2 ORDER BY id", account, endpoint.String())
	return actions, details
}

func acting(t *testing.T) context.Context {
	t.Helper()
	return audit.WithActor(t.Context(), audit.Actor{
		Kind: audit.Developer, Name: "https://id.example#ada", Address: netip.MustParseAddr("192.0.2.1"), RequestID: "r",
	})
}

func TestEachChangeOfAnEndpointIsRecordedWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, account := acting(t), b.account(t)
	made, _, err := b.endpoints.Register(ctx, Registration{
		AccountID: account, URL: "https://receiver.example.com:8443/token-in-path?token=in-query", Events: []Kind{KindScored},
	})
	check.NoError(t, err)
	tested, err := b.deliveries.Test(ctx, account, made.ID, time.Now())
	check.NoError(t, err)
	b.end(t, tested, "failed", time.Minute)
	again, err := b.deliveries.Redeliver(ctx, account, made.ID, tested)
	check.NoError(t, err)
	if _, err := b.endpoints.RotateSecret(ctx, account, made.ID); err != nil {
		t.Fatal(err)
	}
	url, description, off := "https://other.example.com/secret", "mail ada@example.org", false
	for _, change := range []Change{{}, {URL: &url, Events: Kinds(), Description: &description, Enabled: &off}} {
		if _, err := b.endpoints.Update(ctx, account, made.ID, change); err != nil {
			t.Fatal(err)
		}
	}
	check.NoError(t, b.endpoints.Delete(ctx, account, made.ID))
	all := []any{}
	for _, kind := range Kinds() {
		all = append(all, string(kind))
	}
	want := map[string]map[string]any{
		"webhook.create":        {"host": "receiver.example.com:8443", "events": []any{string(KindScored)}},
		"webhook.test":          {"delivery_id": tested.String()},
		"webhook.redeliver":     {"redelivered": tested.String(), "delivery_id": again.String()},
		"webhook.rotate_secret": {},
		"webhook.update": {
			"changed": []any{"url", "events", "description", "status"}, "host": "other.example.com", "events": all, "status": "disabled",
		},
		"webhook.delete": {"host": "other.example.com"},
	}
	actions, details := b.recorded(t, account, made.ID)
	if len(actions) != len(want)+1 {
		t.Fatalf("recorded %v", actions)
	}
	for i, action := range actions {
		expected := want[action]
		if action == "webhook.update" && i == 4 {
			expected = map[string]any{"changed": []any{}}
		}
		if !reflect.DeepEqual(details[i], expected) {
			t.Errorf("%s: recorded %v, want %v", action, details[i], expected)
		}
	}
}

func TestWhatIsRefusedOrDoneByAResourceIsNotRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, account := acting(t), b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	managed, err := b.managed.Apply(ctx, ManagedEndpoint{
		Owner: "c/ns/hook", URL: "https://receiver.example.com", Events: Kinds(), Secret: NewSecret(),
		Account: uuid.NullUUID{UUID: account, Valid: true},
	})
	check.NoError(t, err)
	off := false
	if _, err := b.endpoints.Update(t.Context(), account, made.ID, Change{Enabled: &off}); err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]error{
		"not there":      b.endpoints.Delete(ctx, account, uuid.New()),
		"another's":      b.endpoints.Delete(ctx, uuid.New(), made.ID),
		"of a resource":  b.endpoints.Delete(ctx, account, managed.ID),
		"disabled, test": func() error { _, err := b.deliveries.Test(ctx, account, made.ID, time.Now()); return err }(),
	} {
		if refused == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if count := testkit.Get[int](t, b.pool, "SELECT count(*) FROM audit_log"); count != 0 {
		t.Errorf("%d records", count)
	}
}

func TestAChangeThatCannotBeRecordedDoesNotHappen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := b.account(t)
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com", Events: Kinds()})
	check.NoError(t, err)
	stranger := audit.WithActor(t.Context(), audit.Actor{Kind: "stranger", Name: "x"}) // the table takes no such kind
	if err := b.endpoints.Delete(stranger, account, made.ID); err == nil {
		t.Error("deleted without a record")
	}
	if _, err := b.deliveries.Test(stranger, account, made.ID, time.Now()); err == nil {
		t.Error("tested without a record")
	}
	if _, err := b.endpoints.Get(t.Context(), account, made.ID); err != nil {
		t.Errorf("after the deletion that failed: %v", err)
	}
	if deliveries := testkit.Get[int](t, b.pool, "SELECT count(*) FROM webhook_deliveries"); deliveries != 0 {
		t.Errorf("%d deliveries", deliveries)
	}
}
