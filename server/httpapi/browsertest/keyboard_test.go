package browsertest

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"examprep.dev/server/keys"
)

// reach presses Tab until the focus is on a thing, which must be seen to have it.
func (w *window) reach(role, name string) {
	w.t.Helper()
	evaluate[bool](w, inPage(`!!find(%s, %s, '')`, role, name))
	const most = 200
	for range most {
		if evaluate[bool](w, inPage(`{is: find(%s, %s, '') === document.activeElement}`, role, name)+`.then(found => found.is)`) {
			if !evaluate[bool](w, `document.activeElement.matches(':focus-visible') && getComputedStyle(document.activeElement).outlineStyle !== 'none'`) {
				w.t.Errorf("nothing shows that the %s %q has the focus", role, name)
			}
			return
		}
		w.strike(kb.Tab)
	}
	w.t.Fatalf("%d times Tab never reach the %s %q: %s", most, role, name, w.text())
}

// enter reaches a thing and presses Enter.
func (w *window) enter(role, name string) {
	w.t.Helper()
	w.reach(role, name)
	w.strike(kb.Enter)
}

// enterDialog reaches a button that opens a dialog, and presses Enter.
func (w *window) enterDialog(name string) {
	w.t.Helper()
	w.enter("button", name)
	evaluate[bool](w, inPage(`area() !== document`))
}

func TestTheKeyboardAloneCreatesAndRevokesAKey(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.enter("link", "Keys")
	ada.see("This account has no keys yet.")
	ada.enterDialog("Create key")
	ada.reach("field", "Name")
	ada.insert("ci")
	ada.strike(kb.Enter)
	key := ada.value("pre.code bdi")
	ada.enter("button", "Copy key")
	ada.see("Copied")
	ada.strike(kb.Escape)
	ada.miss(key)
	prefix := key[:keys.PrefixLength]
	ada.enterDialog("Revoke " + prefix)
	ada.reach("field", "Prefix")
	ada.insert(prefix)
	ada.enter("button", "Revoke key")
	ada.hear("is revoked. All pods have confirmed it.")
	s.refuses(key)
}

func TestTheKeyboardAloneRecoversAWebhook(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.receiver.Status.Store(http.StatusServiceUnavailable)
	ada := s.signedIn("Ada")
	ada.enter("link", "Webhooks")
	ada.enterDialog("Add endpoint")
	ada.reach("field", "URL")
	ada.insert(s.receiver.URL)
	ada.strike(kb.Enter)
	ada.enter("button", "Copy secret")
	ada.see("Copied")
	ada.strike(kb.Escape)
	ada.enter("button", "Send test event")
	ada.seeIn("webhook.test", "Failed")
	s.receiver.Status.Store(http.StatusOK)
	ada.enterDialog("Recover since")
	ada.see("1 delivery will be sent.")
	ada.enter("button", "Send 1 delivery")
	ada.seeIn("webhook.test", "Succeeded")
}
