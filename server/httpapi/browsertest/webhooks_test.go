package browsertest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"examprep.dev/api/client"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// addEndpoint registers the receiver on the page of webhooks, and returns its signing secret.
func (s *stage) addEndpoint(w *window) string {
	s.t.Helper()
	w.click("link", "Webhooks")
	w.open("Add endpoint", "")
	w.fill("URL", s.receiver.URL+"/hooks")
	w.click("button", "Add endpoint")
	return w.secret("Copy secret")
}

func TestAFailingWebhookIsFoundRepairedAndRecovered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.receiver.Status.Store(http.StatusServiceUnavailable)
	ada := s.signedIn("Ada")
	secret := s.addEndpoint(ada)
	ada.click("button", "Send test event")
	ada.see("Failing since")
	ada.seeIn("webhook.test", "Failed")
	ada.clickIn("button", "Open", "webhook.test")
	ada.seeIn("6 of 6", "503")
	for range 6 {
		s.receiver.Next(t)
	}

	s.receiver.Status.Store(http.StatusOK)
	ada.open("Recover since", "")
	ada.see("1 delivery will be sent.")
	ada.click("button", "Send 1 delivery")
	arrived := s.receiver.Next(t)
	check.NoError(t, client.Verify(arrived.Header.Get(client.SignatureHeader), arrived.Body, secret, time.Now(), testkit.Patience))
	ada.seeIn("webhook.test", "Succeeded")
	ada.click("link", "Overview")
	ada.miss("Endpoint failing")
}

// TestTheDeliveriesCanBeFiltered: the address keeps the filter.
func TestTheDeliveriesCanBeFiltered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	s.addEndpoint(ada)
	ada.click("button", "Send test event")
	ada.seeIn("webhook.test", "Succeeded")
	ada.click("button", "Failed")
	ada.see("No delivery matches these filters.")
	ada.visit(evaluate[string](ada, `location.href`))
	ada.see("No delivery matches these filters.")
	ada.click("link", "Clear the filters")
	ada.seeIn("webhook.test", "Succeeded")
}

func TestARedeliveryThatIsClickedTwiceHappensOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	s.addEndpoint(ada)
	ada.click("button", "Send test event")
	ada.seeIn("webhook.test", "Succeeded")
	s.receiver.Next(t)
	ada.clickTwice("button", "Redeliver", "webhook.test")
	ada.hear("is sent again")
	s.receiver.Next(t)
	check.Equal(t, s.count("SELECT count(*) FROM webhook_deliveries"), 2, "deliveries")
}

func TestADoubleClickSendsOneTestEventThoughItArrivesBetween(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	s.addEndpoint(ada)
	ada.see("Nothing was sent to this endpoint yet.")
	more := ada.doubleClick("Send test event", "", func() { ada.see("Test event arrived") })
	check.Equal(t, more, 0, "test events that the second click sent")
	ada.seeIn("webhook.test", "Succeeded")
	check.Equal(t, s.count("SELECT count(*) FROM webhook_deliveries"), 1, "deliveries")
}

// TestADoubleClickRedeliversOnceThoughTheResponseComesBetween: the list has grown by then, so that the second click is on another
// row.
func TestADoubleClickRedeliversOnceThoughTheResponseComesBetween(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	s.addEndpoint(ada)
	ada.click("button", "Send test event")
	ada.see("Test event arrived")
	ada.seeIn("webhook.test", "Succeeded")
	more := ada.doubleClick("Redeliver", "webhook.test", func() {
		ada.hear("is sent again")
		evaluate[bool](ada, inPage(`[...document.querySelectorAll('button')].filter(e => nameOf(e).startsWith('Redeliver')).length === 2`))
	})
	check.Equal(t, more, 0, "deliveries that the second click sent")
	check.Equal(t, s.count("SELECT count(*) FROM webhook_deliveries"), 2, "deliveries")
}

func TestAnEndpointIsChangedDisabledEnabledAndDeleted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	old := s.addEndpoint(ada)
	ada.click("link", "Settings")
	ada.fill("Description", "orders")
	ada.click("button", "Save changes")
	ada.hear("The changes are saved.")
	ada.open("Rotate secret", "")
	ada.click("button", "Rotate secret")
	if ada.secret("Copy secret") == old {
		t.Error("the rotated secret is the old one")
	}
	ada.open("Disable endpoint", "")
	ada.click("button", "Disable endpoint")
	ada.see("Nothing is delivered.")
	ada.open("Enable endpoint", "")
	ada.click("button", "Enable endpoint")
	ada.miss("Nothing is delivered.")

	ada.click("link", "Activity")
	hook := testkit.Get[string](t, s.Pool, `SELECT id::text FROM webhook_endpoints`)
	ada.clickIn("link", hook[:6]+"…"+hook[len(hook)-4:], "Signing secret rotated")
	ada.click("link", "Settings")
	ada.open("Delete endpoint", "")
	ada.click("button", "Delete endpoint")
	ada.see("This account has no endpoints yet.")
}
