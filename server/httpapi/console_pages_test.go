package httpapi_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// consoleFiles returns the paths that the console's document names.
func (b *browser) consoleFiles() []string {
	b.t.Helper()
	page := b.get("/console/signed-out")
	page.expect(b.t, http.StatusOK, "the document")
	var paths []string
	for _, found := range regexp.MustCompile(`(?:src|href)="(/console/[^"]*)"`).FindAllStringSubmatch(page.body, -1) {
		paths = append(paths, found[1])
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); len(paths) < 6 {
		b.t.Fatalf("the document names %v", paths)
	}
	return paths
}

func TestConsoleHasOneDocumentForAllPages(t *testing.T) {
	t.Parallel()
	c := newConsoleOf(t, apitest.Options{}, func(_ *apitest.API, d *developer.Deps) { d.SignInContact = `Ada <ada@example.org> & "Co"` })
	ada := c.signedIn("ada")
	first := ada.get("/console/")
	for _, part := range []string{`<html lang="en">`, `<div id="app"></div>`, `content="Ada &lt;ada@example.org&gt; &amp; &#34;Co&#34;"`} {
		if !strings.Contains(first.body, part) {
			t.Errorf("the document lacks %s:\n%s", part, first.body)
		}
	}
	want := map[string]string{
		"Cache-Control":                "no-store",
		"Content-Type":                 "text/html; charset=utf-8",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"X-Content-Type-Options":       "nosniff",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	}
	for _, path := range []string{
		"/console/", "/console/keys", "/console/webhooks/1/deliveries?state=failed", "/console/no/such/page", "/console/%2e%2e/docs",
		"/console/signed-out", "/console/refused?reason=expired&request_id=1", "/console/assetsx",
	} {
		got := ada.get(path)
		got.expect(t, http.StatusOK, "%s", path)
		check.Equal(t, got.body, first.body, "document of %s", path)
		for name, value := range want {
			check.Equal(t, got.header.Get(name), value, "%s of %s", name, path)
		}
		head := ada.send(http.MethodHead, path, "", nil)
		if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") == "0" {
			t.Errorf("HEAD %s: %d %v %q", path, head.status, head.header, head.body)
		}
	}
	for _, path := range []string{"/console/", "/console/keys"} {
		got := ada.send(http.MethodPost, path, "", nil)
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" {
			t.Errorf("POST %s: %d %v", path, got.status, got.header)
		}
	}
	check.Equal(t, testkit.Metric(t, c.Registry, "examprep_http_requests_total", map[string]string{"operation": "getConsole", "status": "2xx"}) > 0,
		true, "the pages are counted as getConsole")
}

func TestConsoleIsOpenedByTheRoot(t *testing.T) {
	t.Parallel()
	b := newConsole(t).open()
	got := b.get("/")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/console/" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", got.status, got.header)
	}
}

func TestConsoleWithoutASessionLeadsToTheSignIn(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	token := ada.cookie(sessionCookie)
	for _, cookie := range []string{"", "made-up", token[:len(token)-1], token + "A"} {
		header := map[string]string{"Cookie": sessionCookie + "=" + cookie}
		for path, returnTo := range map[string]string{
			"/console/":     "/console/",
			"/console/keys": "/console/keys",
			"/console/usage?a=b&c=2026-01-01T00%3A00": "/console/usage?a=b&c=2026-01-01T00%3A00",
			"/console/signed-out/":                    "/console/signed-out/",
			"/console/%2e%2e/v1/developer/sessions":   "/console/",
			"/console/?next=//evil.example":           "/console/",
			"/console//evil.example":                  "/console/",
			"/console/" + strings.Repeat("k", 600):    "/console/",
		} {
			got := c.open().send(http.MethodGet, path, "", header)
			want := "/v1/developer/sign-in?return_to=" + url.QueryEscape(returnTo)
			if got.status != http.StatusSeeOther || got.header.Get("Location") != want || got.header.Get("Cache-Control") != "no-store" || got.body != "" {
				t.Errorf("%.60s: %d to %q, want %q", path, got.status, got.header.Get("Location"), want)
			}
		}
		for _, path := range []string{"/console/signed-out", "/console/refused", "/console/refused?reason=expired"} {
			c.open().send(http.MethodGet, path, "", header).expect(t, http.StatusOK, "%s", path)
		}
	}
	ada.signOut(sessionPath)
	ended := c.open().send(http.MethodGet, "/console/keys", "", map[string]string{"Cookie": sessionCookie + "=" + token})
	ended.expect(t, http.StatusOK, "with the token of a session that has ended, which is not looked up")
}

func TestConsoleFilesAreKeptForGood(t *testing.T) {
	t.Parallel()
	b := newConsole(t).open() // files need no session
	for _, path := range b.consoleFiles() {
		plain := b.send(http.MethodGet, path, "", map[string]string{"Accept-Encoding": "identity"})
		mediaType := map[string]string{
			"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml",
		}[path[strings.LastIndexByte(path, '.')+1:]]
		for name, want := range map[string]string{
			"Cache-Control": "public, max-age=31536000, immutable", "Content-Type": mediaType, "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			check.Equal(t, plain.header.Get(name), want, "%s of %s", name, path)
		}
		plain.expect(t, http.StatusOK, "%s", path)
		for coding, unpack := range map[string]func(dst, packed []byte) ([]byte, error){
			"gzip": fasthttp.AppendGunzipBytes, "br": fasthttp.AppendUnbrotliBytes, "zstd": fasthttp.AppendUnzstdBytes,
		} {
			got := b.send(http.MethodGet, path, "", map[string]string{"Accept-Encoding": coding})
			content := []byte(got.body)
			if len(plain.body) >= 1400 {
				check.Equal(t, got.header.Get("Content-Encoding"), coding, "coding of %s", path)
				var err error
				content, err = unpack(nil, content)
				check.NoError(t, err)
			}
			check.Equal(t, string(content), plain.body, "%s by %s", path, coding)
		}
		head := b.send(http.MethodHead, path, "", map[string]string{"Accept-Encoding": "identity"})
		if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != plain.header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d %v", path, head.status, head.header)
		}
		known := b.send(http.MethodGet, path, "", map[string]string{"Accept-Encoding": "identity", "If-None-Match": plain.header.Get("Etag")})
		known.expect(t, http.StatusNotModified, "%s, known already", path)
	}
}

func TestFilesOfAnotherBuildAreNotFoundAndNotKept(t *testing.T) {
	t.Parallel()
	b := newConsole(t).open()
	files := b.consoleFiles()
	file := files[slices.IndexFunc(files, func(path string) bool { return strings.HasSuffix(path, "/main.js") })]
	hash := strings.Split(file, "/")[3]
	for name, path := range map[string]string{
		"another hash":        strings.Replace(file, hash, strings.Repeat("0", len(hash)), 1),
		"no hash":             "/console/assets/main.js",
		"the hash alone":      "/console/assets/" + hash,
		"the hash's folder":   "/console/assets/" + hash + "/",
		"the folder":          "/console/assets/",
		"no such file":        "/console/assets/" + hash + "/none.js",
		"a declaration":       "/console/assets/" + hash + "/vendor/preact.d.ts",
		"a path out of it":    "/console/assets/" + hash + "/../main.js",
		"an encoded path out": "/console/assets/" + hash + "/%2e%2e/%2e%2e/go.mod",
		"upper case":          "/console/assets/" + strings.ToUpper(hash) + "/MAIN.js",
		"an encoded name":     "/console/assets/" + hash + "/m%61in.js",
	} {
		got := b.get(path)
		if got.status != http.StatusNotFound || got.code(t) != "not_found" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s, %s: %d %v %s", name, path, got.status, got.header, got.body)
		}
	}
}

func TestConsoleIsNotThereWithoutSignIn(t *testing.T) {
	t.Parallel()
	files := newConsole(t).open().consoleFiles()
	a := newAPI(t)
	for _, path := range append(files, "/", "/console/", "/console/keys", "/console/refused", "/console/signed-out") {
		got := a.visit(http.MethodGet, path, nil)
		if got.status != http.StatusNotFound || got.code(t) != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestConsoleTakesNothingFromTheBucketOfTheAddress(t *testing.T) {
	t.Parallel()
	narrow := gate.Config{Anonymous: keys.Tier{Name: "narrow", Requests: 2, Period: time.Hour, Burst: 2}}
	b := newConsoleOf(t, apitest.Options{Gate: narrow}, func(*apitest.API, *developer.Deps) {}).open()
	paths := append(b.consoleFiles(), "/", "/console/keys", "/console/refused", "/console/assets/0/none.js")
	for left := 2; left >= 0; left-- {
		for _, path := range paths {
			got := b.get(path)
			if got.status == http.StatusTooManyRequests {
				t.Errorf("%s: %s", path, got.body)
			}
			for name, want := range map[string]string{
				"RateLimit-Limit": "2", "RateLimit-Remaining": string(rune('0' + left)), "RateLimit-Policy": "2;w=3600",
			} {
				check.Equal(t, got.header.Get(name), want, "%s of %s", name, path)
			}
		}
		b.get("/docs") // takes one
	}
	b.get("/docs").expect(t, http.StatusTooManyRequests, "beyond the allowance of the address")
}

// TestConsoleShowsItselfInABrowser: the scripts run under the document's policy.
func TestConsoleShowsItselfInABrowser(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	shown := showPage(t, "http://"+c.Address+"/console/signed-out")
	if !regexp.MustCompile(`<div id="app">\s*<[a-z]`).MatchString(shown) {
		t.Errorf("nothing is shown:\n%s", shown)
	}
}

func TestSignInReturnsToThePageItBeganAt(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	for returnTo, want := range map[string]string{
		"/console/keys": "/console/keys",
		"/console/webhooks/1/deliveries?state=failed&since=2026-01-01T00%3A00%3A00Z": "/console/webhooks/1/deliveries?state=failed&since=2026-01-01T00%3A00%3A00Z",
		"":                                      consolePath,
		"/console/a b":                          consolePath,
		"https://evil.example/console/":         consolePath,
		"//evil.example/console/":               consolePath,
		"/console/%2e%2e/v1/openapi.json":       consolePath,
		"/v1/developer/sessions":                consolePath,
		"/console/\r\nSet-Cookie: a=b":          consolePath,
		"/console/?" + strings.Repeat("q", 600): consolePath,
	} {
		ada := p.visitor(t)
		address := ada.beginFor(returnTo)
		if returnTo != "" && strings.Contains(address.String(), url.QueryEscape(returnTo)) {
			t.Errorf("the provider is told of %q: %s", returnTo, address)
		}
		got := ada.call(ada.authenticate(address, "ada"))
		if got.status != http.StatusSeeOther || got.header.Get("Location") != want {
			t.Errorf("%q: %d to %q, want %q", returnTo, got.status, got.header.Get("Location"), want)
		}
	}
	for _, query := range []string{"return_to=/console/keys&return_to=/console/usage", "return_to=%ff", "return_to=%zz", "return_to=/console/keys%00"} {
		ada := p.visitor(t)
		begun, err := url.Parse(ada.get("/v1/developer/sign-in?" + query).header.Get("Location"))
		check.NoError(t, err)
		got := ada.call(ada.authenticate(begun, "ada"))
		check.Equal(t, got.header.Get("Location"), consolePath, "where %s leads", query)
	}
}

// TestSignInCookieThatNobodyMadeIsRefused: only this service makes the cookie that has the page to return to.
func TestSignInCookieThatNobodyMadeIsRefused(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.visitor(t)
	back := ada.authenticate(ada.beginFor("/console/keys"), "ada")
	ada.plant(signInCookie, `{"return_to":"https://evil.example/"}`)
	ada.refused(ada.call(back), "expired")
}

func TestPersonWithoutAnAccountIsLedToTheRefusal(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	closed := c.variant(httpapi.Config{}, func(deps *httpapi.Deps) {
		other := *c.API
		other.NoPersonalAccounts = true
		deps.Developer = developerOf(c.provider)(&other)
	})
	b := newBrowser(t, "http://"+closed.Address, http.Header{}, loopbackJar{}, nil)
	c.provider.QueueUser(&mockoidc.MockUser{Subject: "nobody"})
	begun := b.get("/v1/developer/sign-in")
	_, header, _ := b.do(http.MethodGet, begun.header.Get("Location"), "")
	back, err := url.Parse(header.Get("Location"))
	check.NoError(t, err)
	b.refused(b.get(back.RequestURI()), "no_account")
	for _, text := range []string{`"msg":"sign-in refused"`, `"reason":"`} {
		if !strings.Contains(closed.Logs.String(), text) {
			t.Errorf("the log lacks %s", text)
		}
	}
}

// TestFailedSignInIsAnErrorInLogAndMetrics: the browser gets a page, the operator the error.
func TestFailedSignInIsAnErrorInLogAndMetrics(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.visitor(t)
	back := ada.authenticate(ada.begin(), "ada")
	restore := testkit.CutOff(t, p.Pool)
	got := ada.call(back)
	ada.refused(got, "unavailable")
	restore()
	labels := map[string]string{"operation": "completeSignIn", "code": "service_unavailable"}
	check.Equal(t, p.metric("examprep_http_errors_total", labels), 1, "errors counted")
	for _, text := range []string{`"msg":"request failed"`, `"request_id":"` + got.header.Get("X-Request-Id") + `"`} {
		check.Equal(t, strings.Contains(p.Logs.String(), text), true, "the log has %s", text)
	}
}
