package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

func TestDeliveriesAreWalkedCompletelyWhileMoreArrive(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	account := c.account(ada)
	hook := textOf(ada.make("/v1/developer/webhooks", newHook), "id")
	c.scored(account, 120)
	want := make([]string, 0, 120)
	for _, page := range [][]map[string]any{ada.deliveries(hook, "?limit=100"), nil} {
		if page == nil {
			page = ada.deliveries(hook, "?limit=100&before="+want[99])
		}
		for _, d := range page {
			want = append(want, textOf(d, "id"))
		}
	}
	if sorted := slices.IsSortedFunc(want, func(a, b string) int { return strings.Compare(b, a) }); len(want) != 120 || !sorted {
		t.Fatalf("%d deliveries, newest first: %v", len(want), sorted)
	}
	check.Equal(t, len(ada.deliveries(hook, "")), 50, "deliveries on a page")
	var walked []string
	for query, more := "?limit=7", true; more; {
		_, _, page := ada.do(http.MethodGet, "/v1/developer/webhooks/"+hook+"/deliveries"+query, "")
		for _, d := range listOf(page, "deliveries") {
			walked = append(walked, textOf(d, "id"))
		}
		more, _ = page["has_more"].(bool)
		if next := walked[len(walked)-1]; more && page["next_before"] != next {
			t.Fatalf("next_before is %v, want the last delivery %s", page["next_before"], next)
		}
		query = "?limit=7&before=" + walked[len(walked)-1]
		c.scored(account, 3)
	}
	check.Slices(t, walked, want, "deliveries, page by page")
}

func TestWhatIsAskedOfDeliveries(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	mine, other := textOf(ada.make("/v1/developer/webhooks", newHook), "id"), textOf(ada.make("/v1/developer/webhooks", newHook), "id")
	_, _, started := ada.do(http.MethodPost, "/v1/developer/webhooks/"+other+"/test", "")
	for _, query := range []string{
		"limit=", "state=", "state=Failed", "state=failed%20", "event=", "event=mock_attempt", "since=", "since=2026-03-04", "since=1700000000",
		"before=", "before=%00", "before=" + uuid.NewString(), "before=" + uuid.Nil.String(),
		"before=" + textOf(started, "delivery_id"),
	} {
		field, _, _ := strings.Cut(query, "=")
		status, _, refused := ada.do(http.MethodGet, "/v1/developer/webhooks/"+mine+"/deliveries?"+query, "")
		if status != http.StatusBadRequest || !names(refused, field) {
			t.Errorf("%s: %d %v, want %s named", query, status, refused, field)
		}
	}
	if status, _, page := ada.do(http.MethodGet, "/v1/developer/webhooks/"+mine+"/deliveries", ""); status != http.StatusOK ||
		!reflect.DeepEqual(page, map[string]any{"deliveries": []any{}, "has_more": false}) {
		t.Errorf("none: %d %v", status, page)
	}
}

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

	for query, want := range map[string]int{
		"?state=failed": 1, "?state=failed&event=mock_attempt.scored": 1, "?state=failed&event=webhook.test": 0, "?state=cancelled": 0,
		"?state=pending": 0, "?state=delivered": 0, "?event=mock_attempt.scored": 1, "?since=" + url.QueryEscape(textOf(listed, "created_at")): 1,
		"?since=2999-01-01T00:00:00Z": 0,
	} {
		check.Equal(t, len(ada.deliveries(hook, query)), want, "%s: deliveries", query)
	}

	since := fmt.Sprintf(`{"since":%q}`, began.Format(time.RFC3339Nano))
	dryRun := strings.Replace(since, "}", `,"dry_run":true}`, 1)
	if status, _, answer := ada.do(http.MethodPost, path+"/recover", dryRun); status != http.StatusOK ||
		!reflect.DeepEqual(answer, map[string]any{"deliveries": 1.0, "more": false}) {
		t.Errorf("a dry run: %d %v", status, answer)
	}
	check.Equal(t, len(ada.deliveries(hook, "")), 1, "deliveries after a dry run")
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
		`{}`, `{"dry_run":true}`, `{"since":null}`, `{"since":1700000000}`, `{"since":"yesterday"}`, `{"since":"2026-03-04"}`, `{"since":"0001-01-01T00:00:00Z"}`,
		fmt.Sprintf(`{"since":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)),
		fmt.Sprintf(`{"since":%q}`, time.Now().Add(-webhooks.RecoveryWindow-time.Hour).Format(time.RFC3339)),
	} {
		if status, _, refused := ada.do(http.MethodPost, path, body); status != http.StatusBadRequest || !names(refused, "since") {
			t.Errorf("%s: %d %v, want since named", body, status, refused)
		}
	}
	soon := time.Now().Add(time.Hour).Format(time.RFC3339)
	if status, _, refused := ada.do(http.MethodPost, path, fmt.Sprintf(`{"since":%q,"dry_run":true}`, soon)); status != http.StatusBadRequest || !names(refused, "since") {
		t.Errorf("a dry run from a time to come: %d %v", status, refused)
	}
	if status, _, refused := ada.do(http.MethodPost, path, fmt.Sprintf(`{"since":%q,"dry_run":"yes"}`, soon)); status != http.StatusBadRequest || !names(refused, "dry_run") {
		t.Errorf("a dry_run that is no boolean: %d %v", status, refused)
	}
	if status, _, answer := ada.do(http.MethodPost, path, bodyFor(http.MethodPost)); status != http.StatusAccepted ||
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
	testkit.Exec(t, c.Pool, "UPDATE webhook_deliveries SET state = 'cancelled', finished_at = now()") // as a worker does
	if status, _, refused := ada.do(http.MethodPost, path, bodyFor(http.MethodPost)); status != http.StatusConflict || refused["managed_by"] != nil {
		t.Errorf("suspended: %d %v, want 409", status, refused)
	}
	want.Suspend = false
	c.declare(want)
	if status, _, answer := ada.do(http.MethodPost, path, bodyFor(http.MethodPost)); status != http.StatusAccepted || answer["deliveries"] != 1.0 {
		t.Errorf("resumed: %d %v", status, answer)
	}
}
