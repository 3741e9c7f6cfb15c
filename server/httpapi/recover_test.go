package httpapi_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/webhooks"
)

func TestAFailedDeliveryShowsItsTriesAndIsRecovered(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	receiver := c.receive(http.StatusTeapot)
	began := time.Now().Add(-time.Minute)
	hook := c.hook(ada, receiver)
	path := "/v1/developer/webhooks/" + hook
	c.scored(c.account(ada), 1)
	var listed map[string]any
	testkit.Eventually(t, "it has failed for good", func() bool {
		listed = ada.deliveries(hook, "")[0]
		return listed["state"] == "failed"
	})
	one := path + "/deliveries/" + textOf(listed, "id")
	status, _, shown := ada.do(http.MethodGet, one, "")
	tries := listOf(shown, "tries")
	delete(shown, "tries")
	if status != http.StatusOK || !reflect.DeepEqual(shown, listed) || len(tries) != 6 {
		t.Fatalf("%d %v with %d tries, want what is listed: %v", status, shown, len(tries), listed)
	}
	for i, try := range tries {
		if try["attempt"] != float64(i+1) || try["status"] != 418.0 || try["failure"] != "status" ||
			timeOf(t, try, "began_at").Before(began) || try["duration_ms"] == nil {
			t.Errorf("try %d is %v", i+1, try)
		}
	}
	bob.expect(http.StatusNotFound, http.MethodGet, one, "", "another sees")

	since := fmt.Sprintf(`{"since":%q}`, began.Format(time.RFC3339Nano))
	if status, _, answer := ada.do(http.MethodPost, path+"/recover", since); status != http.StatusAccepted ||
		!reflect.DeepEqual(answer, map[string]any{"deliveries": 1.0, "more": false}) {
		t.Errorf("recovered: %d %v", status, answer)
	}
	if list := ada.deliveries(hook, ""); len(list) != 2 || list[0]["event_id"] != listed["event_id"] {
		t.Errorf("listed %v", list)
	}
}

func TestARecoveryNamesWhatIsWrongWithSince(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	path := "/v1/developer/webhooks/" + textOf(ada.make("/v1/developer/webhooks", newHook), "id") + "/recover"
	for _, body := range []string{
		`{}`, `{"since":null}`, `{"since":1700000000}`, `{"since":"yesterday"}`, `{"since":"2026-03-04"}`, `{"since":"0001-01-01T00:00:00Z"}`,
		fmt.Sprintf(`{"since":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)),
		fmt.Sprintf(`{"since":%q}`, time.Now().Add(-webhooks.RecoveryWindow-time.Hour).Format(time.RFC3339)),
	} {
		if status, _, refused := ada.do(http.MethodPost, path, body); status != http.StatusBadRequest || !names(refused, "since") {
			t.Errorf("%s: %d %v, want since named", body, status, refused)
		}
	}
	if status, _, answer := ada.do(http.MethodPost, path, sinceAnHour()); status != http.StatusAccepted ||
		!reflect.DeepEqual(answer, map[string]any{"deliveries": 0.0, "more": false}) {
		t.Errorf("where all has arrived: %d %v", status, answer)
	}
}

func TestAWebhookOfTheClusterIsRecoveredUnlessItIsSuspended(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	want := webhooks.ManagedEndpoint{
		Owner: "test/exams/gradebook", URL: "https://receiver.example.com/", Events: webhooks.Kinds(), Secret: webhooks.NewSecret(),
		Account: uuid.NullUUID{UUID: c.account(ada), Valid: true},
	}
	path := "/v1/developer/webhooks/" + c.declare(want).ID.String() + "/recover"
	c.scored(want.Account.UUID, 1)
	want.Suspend = true
	c.declare(want)
	if status, _, refused := ada.do(http.MethodPost, path, sinceAnHour()); status != http.StatusConflict || refused["managed_by"] != nil {
		t.Errorf("suspended: %d %v, want 409", status, refused)
	}
	want.Suspend = false
	c.declare(want)
	if status, _, answer := ada.do(http.MethodPost, path, sinceAnHour()); status != http.StatusAccepted || answer["deliveries"] != 1.0 {
		t.Errorf("resumed: %d %v", status, answer)
	}
}
