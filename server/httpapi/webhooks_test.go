package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery"
)

func TestADeveloperManagesWebhooks(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	status, _, made := ada.do(http.MethodPost, "/v1/developer/webhooks",
		`{"url":"https://receiver.example.com/hook","events":["mock_attempt.scored"],"description":"gradebook"}`)
	secret, _ := made["secret"].(string)
	id, _ := made["id"].(string)
	if status != http.StatusCreated || !strings.HasPrefix(secret, "whsec_") || made["status"] != "enabled" {
		t.Fatalf("create: %d %v", status, made)
	}
	path := "/v1/developer/webhooks/" + id
	if status, _, shown := ada.do(http.MethodGet, path, ""); status != http.StatusOK || shown["secret"] != nil {
		t.Errorf("get: %d %v", status, shown)
	}
	bob.expect(http.StatusNotFound, http.MethodGet, path, "", "another's webhook")
	if status, _, rotated := ada.do(http.MethodPost, path+"/rotate-secret", ""); status != http.StatusOK || rotated["secret"] == secret {
		t.Errorf("rotate: %d", status)
	}
	ada.expect(http.StatusNoContent, http.MethodDelete, path, "", "delete")
	ada.expect(http.StatusNotFound, http.MethodGet, path, "", "after deletion")
	for body, field := range map[string]string{
		`{"url":"http://x.example","events":["mock_attempt.scored"]}`:         "url",
		`{"url":"https://169.254.169.254/","events":["mock_attempt.scored"]}`: "url",
		`{"url":"https://x.example","events":["nonsense"]}`:                   "events[0]",
		`{"url":"https://x.example","events":[]}`:                             "events",
		`{"url":"https://x.example","events":[7]}`:                            "events",
		`{"events":["mock_attempt.scored"]}`:                                  "url",
	} {
		status, _, refused := ada.do(http.MethodPost, "/v1/developer/webhooks", body)
		if text, _ := json.Marshal(refused["errors"]); status != http.StatusBadRequest || !strings.Contains(string(text), `"`+field+`"`) {
			t.Errorf("%s: %d %v, want %s named", body, status, refused, field)
		}
	}
}

const newHook = `{"url":"https://receiver.example.com/hook","events":["mock_attempt.scored"],"description":"gradebook"}`

func TestAChangeOfAWebhookChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	made := ada.make("/v1/developer/webhooks", newHook)
	path := "/v1/developer/webhooks/" + textOf(made, "id")
	delete(made, "secret")
	shown := func() map[string]any {
		_, _, kept := ada.do(http.MethodGet, path, "")
		if kept["pending"] != 0.0 || kept["failed_since"] != 0.0 {
			t.Errorf("the backlog is %v", kept)
		}
		delete(kept, "pending")
		delete(kept, "failed_since")
		return kept
	}
	for _, step := range []struct {
		body    string
		changed map[string]any
	}{
		{`{}`, nil},
		{`{"unknown":1}`, nil},
		{`{"description":""}`, map[string]any{"description": ""}},
		{`{"url":"https://other.example.com/"}`, map[string]any{"url": "https://other.example.com/"}},
		{`{"events":["exam.content_updated","mock_attempt.submitted"]}`, map[string]any{"events": []any{"exam.content_updated", "mock_attempt.submitted"}}},
		{`{"status":"disabled"}`, map[string]any{"status": "disabled", "disabled_reason": "turned off by its owner"}},
		{`{"status":"disabled","description":"off"}`, map[string]any{"description": "off"}},
		{`{"status":"enabled"}`, map[string]any{"status": "enabled", "disabled_reason": nil}},
	} {
		for field, value := range step.changed {
			made[field] = value
			if value == nil {
				delete(made, field)
			}
		}
		status, _, got := ada.do(http.MethodPatch, path, step.body)
		if status != http.StatusOK || !reflect.DeepEqual(got, made) {
			t.Errorf("%s: %d %v, want %v", step.body, status, got, made)
		}
		if kept := shown(); !reflect.DeepEqual(kept, made) {
			t.Errorf("%s: kept %v, want %v", step.body, kept, made)
		}
	}
	for body, field := range map[string]string{
		`{"url":""}`: "url", `{"url":"http://x.example"}`: "url", `{"url":"https://10.0.0.1"}`: "url", `{"url":7}`: "url",
		`{"url":"https://` + strings.Repeat("x", 2048) + `"}`: "url", `{"url":"https://x.example/\u0000"}`: "url",
		`{"events":[]}`: "events", `{"events":["webhook.test"]}`: "events[0]", `{"events":"mock_attempt.scored"}`: "events",
		`{"events":["mock_attempt.scored","mock_attempt.scored"]}`: "events[1]",
		`{"description":"` + strings.Repeat("é", 501) + `"}`:       "description", `{"description":"\u0000"}`: "description",
		`{"status":"Enabled"}`: "status", `{"status":true}`: "status",
	} {
		if status, _, refused := ada.do(http.MethodPatch, path, body); status != http.StatusBadRequest || !names(refused, field) {
			t.Errorf("%s: %d %v, want %s named", body, status, refused, field)
		}
	}
	if status, _, got := ada.do(http.MethodPatch, path, `{"url":null,"events":null,"description":null,"status":null}`); status != http.StatusOK ||
		!reflect.DeepEqual(got, made) {
		t.Errorf("fields that are null: %d %v, want %v", status, got, made)
	}
	for _, body := range []string{"", "[]", `{"description":"x"} x`, `{"description":"x","description":"y"}`, "{\"description\":\"\xff\"}"} {
		if status, _, refused := ada.do(http.MethodPatch, path, body); status != http.StatusBadRequest && status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d %v, want 400", body, status, refused)
		}
	}
	if kept := shown(); !reflect.DeepEqual(kept, made) {
		t.Errorf("after all that was refused: kept %v, want %v", kept, made)
	}
}

func (c *console) declare(want webhooks.ManagedEndpoint) webhooks.Endpoint {
	c.test.Helper()
	endpoint, err := c.managed.Apply(c.test.Context(), want)
	check.NoError(c.test, err)
	return endpoint
}

func TestAWebhookOfTheClusterIsReadOnlyButCanBeTested(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	endpoint := c.declare(webhooks.ManagedEndpoint{
		Owner: "test/exams/gradebook", URL: "https://receiver.example.com/", Events: webhooks.Kinds(), Secret: webhooks.NewSecret(),
		Account: uuid.NullUUID{UUID: c.account(ada), Valid: true},
	})
	path := "/v1/developer/webhooks/" + endpoint.ID.String()
	_, _, before := ada.do(http.MethodGet, path, "")
	if before["managed_by"] != "test/exams/gradebook" {
		t.Fatalf("shown as %v", before)
	}
	for _, refused := range []struct{ method, path, body string }{
		{http.MethodPatch, path, `{"status":"disabled"}`},
		{http.MethodPatch, path, `{}`},
		{http.MethodDelete, path, ""},
		{http.MethodPost, path + "/rotate-secret", ""},
	} {
		status, _, answer := ada.do(refused.method, refused.path, refused.body)
		if status != http.StatusConflict || answer["error"] != "conflict" || answer["managed_by"] != "test/exams/gradebook" || answer["errors"] != nil {
			t.Errorf("%s %s: %d %v, want 409 with managed_by", refused.method, refused.path, status, answer)
		}
	}
	status, _, started := ada.do(http.MethodPost, path+"/test", "")
	if status != http.StatusAccepted {
		t.Fatalf("test: %d %v", status, started)
	}
	delivery := textOf(started, "delivery_id")
	if status, _, again := ada.do(http.MethodPost, path+"/deliveries/"+delivery+"/redeliver", ""); status != http.StatusAccepted || again["delivery_id"] != delivery {
		t.Errorf("redeliver: %d %v, want the pending delivery", status, again)
	}
	if status, _, page := ada.do(http.MethodGet, path+"/deliveries", ""); status != http.StatusOK || len(listOf(page, "deliveries")) != 1 {
		t.Errorf("deliveries: %d %v", status, page)
	}
	_, _, after := ada.do(http.MethodGet, path, "")
	if after["pending"] != 1.0 || after["oldest_pending_at"] == nil {
		t.Errorf("with a pending delivery it is %v", after)
	}
	before["pending"], before["oldest_pending_at"] = after["pending"], after["oldest_pending_at"]
	if !reflect.DeepEqual(after, before) {
		t.Errorf("it was %v, and is %v", before, after)
	}
}

// receive runs a receiver that answers by a status, and a worker that trusts it and never gives up a statement or a response
// before its test does.
func (c *console) receive(status int) *testkit.Receiver {
	c.test.Helper()
	receiver := testkit.StartReceiver(c.test, nil)
	receiver.Status.Store(int32(status))
	client, prefix := testkit.Redis(c.test)
	worker, err := delivery.New(delivery.Config{
		Prefix: prefix, Allowed: delivery.Ranges{Declared: loopback}, RetryDelays: slices.Repeat([]time.Duration{time.Millisecond}, 5), SweepInterval: 50 * time.Millisecond, CAPEM: receiver.CAPEM(),
		Timeout: testkit.Patience, LeaseGrace: testkit.Patience, StatementTimeout: testkit.Patience,
	}, c.Pool, client, c.keyring)
	check.NoError(c.test, err)
	testkit.Run(c.test, worker.Run)
	return receiver
}

// hook registers a receiver, and has a resource declare it: only then may it be at a loopback address.
func (c *console) hook(of *browser, receiver *testkit.Receiver) string {
	c.test.Helper()
	id := textOf(of.make("/v1/developer/webhooks", fmt.Sprintf(`{"url":%q,"events":["mock_attempt.scored"]}`, receiver.URL)), "id")
	testkit.Exec(c.test, c.Pool, "UPDATE webhook_endpoints SET managed_by = 'test' WHERE id = $1", id)
	return id
}

func (c *console) scored(account uuid.UUID, n int) {
	c.test.Helper()
	for range n {
		event, err := webhooks.NewEvent(webhooks.KindScored, uuid.NullUUID{UUID: account, Valid: true}, time.Now(),
			webhooks.AttemptScored{AttemptID: uuid.NewString()})
		check.NoError(c.test, err)
		testkit.Exec(c.test, c.Pool, "SELECT webhook_record_event($1, $2, $3, $4)",
			event.ID, string(event.Kind), event.Account, event.Body)
	}
}

func (b *browser) deliveries(hook, query string) []map[string]any {
	b.t.Helper()
	status, _, page := b.do(http.MethodGet, "/v1/developer/webhooks/"+hook+"/deliveries"+query, "")
	if status != http.StatusOK {
		b.t.Fatalf("deliveries: %d %v", status, page)
	}
	return listOf(page, "deliveries")
}

func TestARedeliveredEventArrivesWithTheSameBytes(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	receiver := c.receive(http.StatusOK)
	hook := c.hook(ada, receiver)
	c.scored(c.account(ada), 1)
	first := receiver.Next(t)
	testkit.Eventually(t, "the event is delivered", func() bool { return len(ada.deliveries(hook, "?state=delivered")) == 1 })
	original := ada.deliveries(hook, "")[0]
	path := "/v1/developer/webhooks/" + hook
	status, _, started := ada.do(http.MethodPost, path+"/deliveries/"+textOf(original, "id")+"/redeliver", "")
	if status != http.StatusAccepted || started["delivery_id"] == original["id"] {
		t.Fatalf("redeliver: %d %v", status, started)
	}
	second := receiver.Next(t)
	if !bytes.Equal(second.Body, first.Body) || second.Header.Get("Webhook-Id") != first.Header.Get("Webhook-Id") {
		t.Errorf("delivered %s as %s, and again %s as %s", first.Body, first.Header.Get("Webhook-Id"), second.Body, second.Header.Get("Webhook-Id"))
	}
	if status, _, started = ada.do(http.MethodPost, path+"/test", ""); status != http.StatusAccepted {
		t.Fatalf("test: %d %v", status, started)
	}
	if got := receiver.Next(t); !bytes.Contains(got.Body, []byte(`"event":"webhook.test"`)) || !bytes.Contains(got.Body, []byte(hook)) {
		t.Errorf("the test event is %s", got.Body)
	}
	testkit.Eventually(t, "all three are delivered, and the webhook says when", func() bool {
		list := ada.deliveries(hook, "")
		_, _, shown := ada.do(http.MethodGet, path, "")
		return len(list) == 3 && shown["last_success_at"] != nil && !slices.ContainsFunc(list, func(d map[string]any) bool {
			return d["state"] != "delivered" || d["last_status"] != 200.0 || d["attempts"] != 1.0 || d["finished_at"] == nil ||
				d["next_attempt_at"] != nil || d["last_failure"] != nil
		})
	})
	list := ada.deliveries(hook, "")
	if list[0]["id"] != started["delivery_id"] || list[0]["event"] != "webhook.test" || list[1]["event_id"] != list[2]["event_id"] ||
		list[2]["event_id"] != first.Header.Get("Webhook-Id") {
		t.Errorf("listed %v", list)
	}
}

func TestAFailedDeliveryTellsWhy(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	receiver := c.receive(http.StatusTeapot)
	hook := c.hook(ada, receiver)
	c.scored(c.account(ada), 1)
	receiver.Next(t)
	testkit.Eventually(t, "it has failed for good", func() bool {
		d := ada.deliveries(hook, "")[0]
		return d["state"] == "failed" && d["last_status"] == 418.0 && d["last_failure"] == "status" && d["attempts"] == 6.0
	})
	var shown map[string]any
	testkit.Eventually(t, "the webhook says since when", func() bool {
		_, _, shown = ada.do(http.MethodGet, "/v1/developer/webhooks/"+hook, "")
		return shown["failing_since"] != nil
	})
	since, disables := timeOf(t, shown, "failing_since"), timeOf(t, shown, "disables_at")
	if !disables.Equal(since.Add(5*24*time.Hour)) || shown["last_status"] != 418.0 || shown["last_success_at"] != nil {
		t.Errorf("the webhook is %v", shown)
	}
}

func timeOf(t *testing.T, document map[string]any, field string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, textOf(document, field))
	check.NoErrorf(t, err, "%s of %v", field, document)
	return at
}

func TestAWebhookWhoseReceiverIsGoneIsNotAboutToBeDisabled(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	receiver := c.receive(http.StatusGone)
	hook := c.hook(ada, receiver)
	c.scored(c.account(ada), 1)
	receiver.Next(t)
	var shown map[string]any
	testkit.Eventually(t, "it is disabled and tells its health", func() bool {
		_, _, shown = ada.do(http.MethodGet, "/v1/developer/webhooks/"+hook, "")
		return shown["status"] == "disabled" && shown["failing_since"] != nil
	})
	if shown["disabled_reason"] == nil || shown["disables_at"] != nil || shown["last_status"] != 410.0 {
		t.Errorf("the webhook is %v", shown)
	}
}

func TestADisabledWebhookIsSentNothing(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	hook := textOf(ada.make("/v1/developer/webhooks", newHook), "id")
	path := "/v1/developer/webhooks/" + hook
	_, _, started := ada.do(http.MethodPost, path+"/test", "")
	if status, _, off := ada.do(http.MethodPatch, path, `{"status":"disabled"}`); status != http.StatusOK {
		t.Fatal(status, off)
	}
	for _, path := range []string{path + "/test", path + "/deliveries/" + textOf(started, "delivery_id") + "/redeliver"} {
		if status, _, refused := ada.do(http.MethodPost, path, ""); status != http.StatusConflict || refused["error"] != "conflict" {
			t.Errorf("%s: %d %v, want 409", path, status, refused)
		}
	}
	ada.expect(http.StatusNotFound, http.MethodPost, path+"/deliveries/"+uuid.NewString()+"/redeliver", "", "what is not there")
	if list := ada.deliveries(hook, ""); len(list) != 1 { // a worker cancels it
		t.Errorf("deliveries %v", list)
	}
}

func TestAMovedWebhookShowsNothingOfItsFormerAccount(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	want := webhooks.ManagedEndpoint{
		Owner: "test/exams/moved", URL: "https://receiver.example.com/", Events: webhooks.Kinds(), Secret: webhooks.NewSecret(),
		Account: uuid.NullUUID{UUID: c.account(ada), Valid: true},
	}
	adas := c.declare(want).ID.String()
	c.scored(want.Account.UUID, 1)
	delivery := textOf(ada.deliveries(adas, "")[0], "id")
	want.Account.UUID = c.account(bob)
	bobs := c.declare(want).ID.String()
	if list := bob.deliveries(bobs, ""); len(list) != 0 {
		t.Errorf("bob sees %v", list)
	}
	for _, hook := range []string{adas, bobs} {
		bob.expect(http.StatusNotFound, http.MethodPost, "/v1/developer/webhooks/"+hook+"/deliveries/"+delivery+"/redeliver", "", "bob resends by %s", hook)
		ada.expect(http.StatusNotFound, http.MethodGet, "/v1/developer/webhooks/"+hook, "", "ada sees %s", hook)
	}
}

func TestATestEventIsOfTheTimeByTheDevelopersClock(t *testing.T) {
	t.Parallel()
	c := newUsageConsole(t, "sandbox", new(atomic.Pointer[usage.Meter]))
	ada := c.signedIn("ada")
	hook := textOf(ada.make("/v1/developer/webhooks", newHook), "id")
	if status, _, answer := ada.do(http.MethodPost, "/v1/developer/webhooks/"+hook+"/test", ""); status != http.StatusAccepted {
		t.Fatalf("%d %v", status, answer)
	}
	created := testkit.Get[int64](t, c.Pool, `SELECT (convert_from(body, 'UTF8')::jsonb->>'created')::bigint
		FROM webhook_events WHERE kind = $1`, string(webhooks.KindTest))
	check.Equal(t, created, usageNow.Unix(), "time of creation")
}
