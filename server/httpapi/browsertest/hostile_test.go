package browsertest

import (
	"net/http"
	"strings"
	"testing"
)

// hostileTexts are texts that must show as they are.
func hostileTexts() []string {
	return []string{
		`<img src=x onerror="window.owned=1"><script>window.owned=1</script>`,
		"${window.owned=1}{{window.owned=1}}<%= owned %>",
		"\u202egnp.exe\u202c \u2066right to left",
		"👩‍👩‍👧‍👦🏴‍☠️ emoji",
		`"><svg/onload=window.owned=1>`,
	}
}

// TestTextsOfOthersShowAsText puts texts that look like markup into each field, and reads each page that shows them.
func TestTextsOfOthersShowAsText(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.receiver.Answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(strings.Join(hostileTexts(), "\n")))
	}
	ada := s.signedIn("Ada")
	for _, text := range hostileTexts() {
		ada.visit("/console/keys")
		ada.createKey(text)
		ada.see(text)
		ada.shows(text)
	}
	ada.expect("400")
	ada.expect("422")
	ada.open("Create key", "")
	ada.fill("Name", strings.Repeat("a", 10_000))
	ada.click("button", "Create key")
	ada.secret("Copy key") // the field takes 200 characters
	s.addEndpoint(ada)
	ada.click("link", "Settings")
	ada.fill("Description", hostileTexts()[0])
	ada.click("button", "Save changes")
	ada.hear("The changes are saved.")
	ada.click("link", "Deliveries")
	ada.click("button", "Send test event")
	ada.seeIn("webhook.test", "Failed")
	ada.clickIn("button", "Open", "webhook.test")
	ada.see(hostileTexts()[0])
	for _, path := range []string{"/console/", "/console/usage", "/console/webhooks", "/console/activity", "/console/account"} {
		ada.visit(path)
		ada.see("Overview")
		ada.shows("")
	}
	ada.visit("/console/refused?reason=%3Cscript%3Ewindow.owned=1%3C/script%3E&request_id=%3Cimg%20src=x%20onerror=window.owned=1%3E")
	ada.see("Sign-in refused")
	ada.shows("")
}

// shows fails if a text became markup or ran.
func (w *window) shows(text string) {
	w.t.Helper()
	if evaluate[bool](w, `window.owned !== undefined || document.querySelector('#app img, #app script, #app iframe') !== null`) {
		w.t.Errorf("%q became markup", text)
	}
}
