package browsertest

import (
	"net/http"
	"testing"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/check"
)

// secret returns the key or signing secret that a dialog shows, having copied it and closed the dialog.
func (w *window) secret(copyButton string) string {
	w.t.Helper()
	shown := w.value("pre.code bdi")
	w.click("button", copyButton)
	w.see("Copied")
	w.click("button", "Close")
	w.miss(shown)
	return shown
}

// createKey creates a key on the page of keys.
func (w *window) createKey(name string) string {
	w.t.Helper()
	w.open("Create key", "")
	w.fill("Name", name)
	w.click("button", "Create key")
	return w.secret("Copy key")
}

func (s *stage) refuses(key string) {
	s.t.Helper()
	check.Equal(s.t, s.use(key), http.StatusUnauthorized, "status of a revoked key")
}

func (s *stage) accepts(key string) {
	s.t.Helper()
	check.Equal(s.t, s.use(key), http.StatusOK, "status of a valid key")
}

func TestAKeyIsCreatedUsedRotatedAndRevoked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.click("link", "Keys")
	ada.see("This account has no keys yet.")

	first := ada.createKey("ci")
	prefix := first[:keys.PrefixLength]
	ada.seeIn(prefix, "never")
	for range 3 {
		s.accepts(first)
	}
	s.writeUsage()
	ada.click("link", "Usage")
	ada.seeIn("ci", "3")

	ada.click("link", "Keys")
	ada.open("Rotate", prefix)
	ada.tick("1 hour")
	ada.click("button", "Rotate key")
	second := ada.secret("Copy key")
	ada.seeIn(prefix, "Stops in")
	ada.see("Both keys work until the old one stops.")
	s.accepts(first)
	s.accepts(second)
	ada.click("link", "Overview")
	ada.see("Expires within 14 days")
	ada.miss("Needs attention")

	ada.click("link", "Keys")
	successor := second[:keys.PrefixLength]
	ada.open("Revoke", successor)
	ada.see(prefix + ", which this key replaced, still works")
	ada.fill("Prefix", successor)
	ada.click("button", "Revoke key")
	ada.hear(successor + " is revoked. All pods have confirmed it.")
	s.refuses(second)
	s.accepts(first)
	ada.see("Only the old key works")
	ada.open("Revoke now", prefix)
	ada.fill("Prefix", prefix)
	ada.click("button", "Revoke key")
	ada.hear(prefix + " is revoked. All pods have confirmed it.")
	s.refuses(first)
}

func TestAKeyThatWasNotCopiedIsNotLostByAccident(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.open("Create key", "")
	ada.fill("Name", "ci")
	ada.click("button", "Create key")
	key := ada.value("pre.code bdi")
	ada.click("button", "Close")
	ada.see("Close without copying?")
	ada.click("button", "Keep open")
	check.Equal(t, ada.value("pre.code bdi"), key, "the key that is shown")
	ada.click("button", "Close")
	ada.click("button", "Close")
	ada.miss(key)
	kept := evaluate[string](ada, `JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, history.state, document.documentElement.outerHTML])`)
	if contains(kept, key) {
		t.Errorf("the page keeps the key: %s", kept)
	}
}

// TestARevocationThatIsNotConfirmedCanBeAskedAgain answers the first request as an API does that a pod did not confirm.
func TestARevocationThatIsNotConfirmedCanBeAskedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.expect("503")
	ada.click("link", "Keys")
	key := ada.createKey("ci")
	restore := s.refuseWhile(http.MethodDelete, "/v1/developer/keys/"+key[:keys.PrefixLength])
	ada.open("Revoke", "ci")
	ada.fill("Prefix", key[:keys.PrefixLength])
	ada.click("button", "Revoke key")
	ada.see("Not confirmed yet. Some pods may still accept the key.")
	restore()
	ada.click("button", "Ask again")
	ada.hear("is revoked. All pods have confirmed it.")
	s.refuses(key)
}
