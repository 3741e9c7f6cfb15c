package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// evilPage serves a page of another origin, with a script.
func (s *stage) evilPage(body string) string {
	s.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><title>another origin</title><body>%s`, body)
	}))
	s.t.Cleanup(server.Close)
	return server.URL
}

// TestAPageOfAnotherOriginChangesNothing sends what a page can send to another origin, with the person's cookies.
func TestAPageOfAnotherOriginChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	const keys = "/v1/developer/keys"
	for _, script := range map[string]string{
		"fetch without CORS": `fetch('%s', {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"name":"evil"}'}).then(() => document.title = 'sent')`,
		"fetch with CORS":    `fetch('%s', {method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: '{"name":"evil"}'}).finally(() => document.title = 'sent').catch(() => {})`,
		"beacon":             `navigator.sendBeacon('%s', '{"name":"evil"}'); document.title = 'sent'`,
	} {
		w := ada.tab()
		w.expect("") // complaints about refused requests
		w.visit(s.evilPage("<script>" + fmt.Sprintf(script, s.origin+keys) + "</script>"))
		evaluate[bool](w, inPage(`document.title === 'sent'`))
	}
	form := ada.tab()
	form.expect("")
	form.visit(s.evilPage(`<form method="post" enctype="text/plain" action="` + s.origin + keys + `"><input name='{"name":"evil","x":"' value='"}'><button>Win</button></form>`))
	form.click("button", "Win")
	form.see("forbidden")
	check.Equal(t, s.count("SELECT count(*) FROM api_keys WHERE name LIKE '%evil%'"), 0, "keys that another origin created")
}

// TestTheConsoleShowsInNoFrame: the browser asks for a page that needs no session, and then for none of its files.
func TestTheConsoleShowsInNoFrame(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var asked testkit.Record
	watch := func(_ http.ResponseWriter, r *http.Request) bool {
		fmt.Fprintln(&asked, r.URL.Path)
		return false
	}
	s.instead.Store(&watch)
	w := s.window()
	w.expect("frame-ancestors")
	w.visit(s.evilPage(`<iframe src="` + s.origin + `/console/signed-out" onload="document.title = 'loaded'"></iframe>`))
	evaluate[bool](w, inPage(`document.title === 'loaded'`))
	check.Equal(t, asked.String(), "/console/signed-out\n", "what the browser asked for")
}

// TestAWindowOfAnotherOriginHasNoHoldOnTheConsole: the opener cannot move, read or reach the console by messages.
func TestAWindowOfAnotherOriginHasNoHoldOnTheConsole(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	w := ada.tab()
	w.visit(s.evilPage(`<button onclick="opened = window.open('` + s.origin + `/console/keys')">Open</button>`))
	w.click("button", "Open")
	evaluate[bool](w, inPage(`window.opened && opened.closed`)) // Cross-Origin-Opener-Policy: to the opener it is gone
	if got := evaluate[bool](ada, `window.opener === null`); !got {
		t.Error("the console has an opener")
	}
	before := evaluate[string](ada, `document.body.innerText`)
	evaluate[bool](ada, `(postMessage({type: 'navigate', path: '/console/account', account: 'x'}, '*'), true)`)
	check.Equal(t, evaluate[string](ada, `document.body.innerText`), before, "page after a message")
}
