package browsertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
	"examprep.dev/server/usage"
)

// picturesVariable names the folder that the pictures of the pages are written to; without it none are.
const picturesVariable = "BROWSERTEST_PICTURES"

// look is a width of the window and a colour scheme.
type look struct {
	name          string
	width, height int64
	scheme        string
}

func looks() []look {
	return []look{
		{"1440-light", 1440, 900, "light"},
		{"1440-dark", 1440, 900, "dark"},
		{"360-light", 360, 780, "light"},
		{"360-dark", 360, 780, "dark"},
	}
}

// TestEachPageIsAccessible looks for violations of WCAG 2.2 AA on each page, and for text that leaves the page sideways.
func TestEachPageIsAccessible(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	s.furnish(ada)
	hook := testkit.Get[string](t, s.Pool, `SELECT id::text FROM webhook_endpoints`)
	pages := []struct {
		name, path, shows string
		open              func(w *window)
	}{
		{"overview", "/console/", "Requests, last 30 days", nil},
		{"keys", "/console/keys", "ci", nil},
		{"key-create", "/console/keys", "ci", func(w *window) { w.open("Create key", ""); w.see("At most 200 characters") }},
		{"key-revoke", "/console/keys", "ci", func(w *window) { w.open("Revoke", "ci"); w.see("Type the prefix") }},
		{"usage", "/console/usage", "By day, newest first", nil},
		{"webhooks", "/console/webhooks", "/hooks", nil},
		{"webhook", "/console/webhooks/" + hook, "webhook.test", func(w *window) { w.clickIn("button", "Open", "webhook.test"); w.see("of 6") }},
		{"webhook-recover", "/console/webhooks/" + hook, "webhook.test", func(w *window) { w.open("Recover since", ""); w.see("will be sent.") }},
		{"webhook-settings", "/console/webhooks/" + hook + "?tab=settings", "Save changes", nil},
		{"webhook-verify", "/console/webhooks/" + hook + "?tab=verify", "Copy code", nil},
		{"activity", "/console/activity", "Key created", nil},
		{"account", "/console/account", "ada@example.org", nil},
		{"not-found", "/console/nothing-here", "Page not found", nil},
		{"refused", "/console/refused?reason=expired&request_id=r-1", "Sign-in refused", nil},
		{"signed-out", "/console/signed-out", "Your session has ended.", nil},
	}
	for _, p := range pages {
		ada.visit(p.path)
		ada.see(p.shows)
		if p.open != nil {
			p.open(ada)
		}
		ada.inspect(p.name)
	}
	s.inspectRotation(ada)
	testkit.Exec(t, s.Pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
		SELECT gen_random_uuid(), current_date, account_id, 1, 0 FROM api_keys, generate_series(0, $1::int) WHERE name = 'ci'`, usage.MaxRows)
	ada.visit("/console/")
	ada.see("Too many keys were used to sum their requests here.")
	ada.inspect("overview-much-usage")
}

// inspectRotation inspects what a rotation shows of a key that ends soon, the dialog that revokes the new key, and what is left then.
func (s *stage) inspectRotation(w *window) {
	s.t.Helper()
	testkit.Exec(s.t, s.Pool, "UPDATE api_keys SET expires_at = now() + interval '5 days' WHERE name = 'ci'")
	w.visit("/console/keys")
	w.open("Rotate", "ci")
	w.see("The new key expires on")
	w.inspect("key-rotate")
	w.click("button", "Rotate key")
	successor := w.secret("Copy key")[:keys.PrefixLength]
	w.see("Both keys work until the old one stops.")
	w.inspect("keys-rotated")
	w.open("Revoke", successor)
	w.see("which this key replaced, still works until")
	w.inspect("key-revoke-rotated")
	w.fill("Prefix", successor)
	w.click("button", "Revoke key")
	w.seeIn(successor, "Revoked")
	w.inspect("keys-revoked")
}

// inspect looks for violations on the page at each width and in each colour scheme, and takes a picture of each.
func (w *window) inspect(page string) {
	w.t.Helper()
	for _, l := range looks() {
		w.resize(l.width, l.height, l.scheme)
		w.accessible(page + " " + l.name)
		w.picture(page + "-" + l.name)
	}
}

// furnish gives the person's account a key that was used, an endpoint that failed, and an invitation.
func (s *stage) furnish(w *window) {
	s.t.Helper()
	w.click("link", "Keys")
	s.accepts(w.createKey("ci"))
	s.writeUsage()
	testkit.Exec(s.t, s.Pool, `INSERT INTO key_usage (key_id, day, account_id, requests, rate_limited)
		SELECT id, current_date - n, account_id, 900 + 40 * (n % 7), 3 * (n % 5) FROM api_keys, generate_series(1, 6) AS n WHERE name = 'ci'`)
	s.receiver.Status.Store(503)
	s.addEndpoint(w)
	w.click("button", "Send test event")
	w.seeIn("webhook.test", "Failed")
	w.invite("bob@example.org", "Developer")
}

// violation is what axe-core says about a page.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"`
}

func (w *window) accessible(page string) {
	w.t.Helper()
	if evaluate[bool](w, `!window.axe`) {
		axe := testkit.ReadFile(w.t, filepath.Join(testenv.Get(w.t, "EXAMPREP_TEST_NPM"), "node_modules", "axe-core", "axe.min.js"))
		evaluate[bool](w, `(() => {`+string(axe)+`; window.axe = axe; return true})()`)
	}
	found := evaluate[[]violation](w, `axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(r =>
		r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html + ' ' + n.failureSummary)})))`)
	for _, v := range found {
		text, _ := json.Marshal(v)
		w.t.Errorf("%s: %s", page, text)
	}
	if wide := evaluate[int](w, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		w.t.Errorf("%s: the page is %d pixels wider than the window", page, wide)
	}
}

// picture writes what the window shows.
func (w *window) picture(name string) {
	w.t.Helper()
	folder := os.Getenv(picturesVariable)
	if folder == "" {
		return
	}
	png, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
	check.NoError(w.t, err)
	testkit.WriteFile(w.t, filepath.Join(folder, name+".png"), png)
}

// TestTheDocumentIsSmall counts what a first view loads.
func TestTheDocumentIsSmall(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	loaded := evaluate[[]struct {
		Name string `json:"name"`
		Size int    `json:"size"`
	}](ada, `performance.getEntriesByType('resource').map(r => ({name: r.name, size: r.encodedBodySize}))`)
	sum := 0
	for _, part := range loaded {
		if strings.Contains(part.Name, "/console/assets/") {
			sum += part.Size
		}
		if !strings.HasPrefix(part.Name, s.origin) {
			t.Errorf("the page loads %s", part.Name)
		}
	}
	if sum == 0 || sum > 120_000 {
		t.Errorf("%d compressed bytes of scripts and styles, want at most 120,000", sum)
	}
}
