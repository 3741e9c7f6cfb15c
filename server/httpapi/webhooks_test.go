package httpapi_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
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
		if _, _, kept := ada.do(http.MethodGet, path, ""); !reflect.DeepEqual(kept, made) {
			t.Errorf("%s: kept %v, want %v", step.body, kept, made)
		}
	}
	for body, field := range map[string]string{
		`{"url":null}`: "url", `{"url":""}`: "url", `{"url":"http://x.example"}`: "url", `{"url":"https://10.0.0.1"}`: "url", `{"url":7}`: "url",
		`{"url":"https://` + strings.Repeat("x", 2048) + `"}`: "url", `{"url":"https://x.example/\u0000"}`: "url",
		`{"events":null}`: "events", `{"events":[]}`: "events", `{"events":["webhook.test"]}`: "events[0]", `{"events":"mock_attempt.scored"}`: "events",
		`{"events":["mock_attempt.scored","mock_attempt.scored"]}`: "events[1]",
		`{"description":null}`: "description", `{"description":"` + strings.Repeat("é", 501) + `"}`: "description", `{"description":"\u0000"}`: "description",
		`{"status":null}`: "status", `{"status":"Enabled"}`: "status", `{"status":true}`: "status",
	} {
		if status, _, refused := ada.do(http.MethodPatch, path, body); status != http.StatusBadRequest || !names(refused, field) {
			t.Errorf("%s: %d %v, want %s named", body, status, refused, field)
		}
	}
	for _, body := range []string{"", "[]", `{"description":"x"} x`, `{"description":"x","description":"y"}`, "{\"description\":\"\xff\"}"} {
		if status, _, refused := ada.do(http.MethodPatch, path, body); status != http.StatusBadRequest && status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d %v, want 400", body, status, refused)
		}
	}
	if _, _, kept := ada.do(http.MethodGet, path, ""); !reflect.DeepEqual(kept, made) {
		t.Errorf("after all that was refused: kept %v, want %v", kept, made)
	}
}

func TestOneWebhookTooManyIsAConflict(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	for range webhooks.MaxEndpoints {
		ada.make("/v1/developer/webhooks", newHook)
	}
	status, _, refused := ada.do(http.MethodPost, "/v1/developer/webhooks", newHook)
	if status != http.StatusConflict || refused["error"] != "conflict" || refused["errors"] != nil {
		t.Errorf("the next: %d %v, want 409", status, refused)
	}
	_, _, listed := ada.do(http.MethodGet, "/v1/developer/webhooks", "")
	check.Equal(t, len(listOf(listed, "webhooks")), webhooks.MaxEndpoints, "endpoints listed")
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
	if status, _, again := ada.do(http.MethodPost, path+"/deliveries/"+delivery+"/redeliver", ""); status != http.StatusAccepted || again["delivery_id"] == delivery {
		t.Errorf("redeliver: %d %v", status, again)
	}
	if status, _, page := ada.do(http.MethodGet, path+"/deliveries", ""); status != http.StatusOK || len(listOf(page, "deliveries")) != 2 {
		t.Errorf("deliveries: %d %v", status, page)
	}
	if _, _, after := ada.do(http.MethodGet, path, ""); !reflect.DeepEqual(after, before) {
		t.Errorf("it was %v, and is %v", before, after)
	}
}
