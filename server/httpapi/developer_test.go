package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// browser is a person's browser: it keeps cookies and follows redirects. It stops before it follows one to the API, so
// that a test can lay hands on it.
type browser struct {
	*http.Client

	t      testing.TB
	origin string
	header http.Header
}

func newBrowser(t testing.TB, origin string, header http.Header, jar http.CookieJar, transport http.RoundTripper) *browser {
	t.Helper()
	return &browser{t: t, origin: origin, header: header, Client: &http.Client{
		Jar: jar, Transport: transport,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if strings.HasPrefix(next.URL.String(), origin) || len(via) > 10 {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}}
}

// loopbackJar sends Secure cookies over plain HTTP, as browsers do on loopback.
type loopbackJar map[string]string

// Cookies returns all of them.
func (j loopbackJar) Cookies(*url.URL) (cookies []*http.Cookie) {
	for name, value := range j {
		cookies = append(cookies, &http.Cookie{Name: name, Value: value})
	}
	return cookies
}

// SetCookies keeps those with a value.
func (j loopbackJar) SetCookies(_ *url.URL, cookies []*http.Cookie) {
	for _, cookie := range cookies {
		j[cookie.Name] = cookie.Value
		if cookie.Value == "" || cookie.MaxAge < 0 {
			delete(j, cookie.Name)
		}
	}
}

// send asks the API, or another server by its whole address, and checks what every answer owes. The header replaces what
// the browser sends otherwise; an empty value takes it away.
func (b *browser) send(method, target, body string, header map[string]string) response {
	b.t.Helper()
	address, own := target, strings.HasPrefix(target, "/")
	if own {
		address = b.origin
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(body))
	check.NoError(b.t, err)
	if own {
		request.URL.Opaque = target // sent as it is, however broken
	}
	maps.Copy(request.Header, b.header)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		request.Header.Set(name, value)
		if value == "" {
			request.Header.Del(name)
		}
	}
	if host := header["Host"]; host != "" { // a name for which the jar would hold no cookies
		request.Host = host
		request.Header.Set("Cookie", sessionCookie+"="+b.cookie(sessionCookie))
	}
	client := *b.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got, err := client.Do(request)
	check.NoError(b.t, err)
	for _, cookie := range got.Cookies() {
		if !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" ||
			cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge == 0 && cookie.Value != "" {
			b.t.Errorf("cookie %s may leak: %s", cookie.Name, cookie.Raw)
		}
	}
	answer := response{got.StatusCode, got.Header, testkit.Body(b.t, got), got.Close}
	if own {
		checkExchange(b.t, got, []byte(answer.body))
	}
	return answer
}

func (b *browser) do(method, target, body string) (int, http.Header, map[string]any) {
	b.t.Helper()
	got := b.send(method, target, body, nil)
	var decoded map[string]any
	if got.body != "" && strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
		testkit.Decode(b.t, []byte(got.body), &decoded)
	}
	return got.status, got.header, decoded
}

// expect sends a request and reports a response that has not the status.
func (b *browser) expect(status int, method, target, body, format string, args ...any) { //nolint:goprintffuncname // every check takes a message
	b.t.Helper()
	if got, _, answer := b.do(method, target, body); got != status {
		b.t.Errorf("%s: %d %v, want %d", fmt.Sprintf(format, args...), got, answer, status)
	}
}

// signInAt goes to the provider and back as subject.
func (b *browser) signInAt(provider *mockoidc.MockOIDC, subject string) {
	b.t.Helper()
	provider.QueueUser(&mockoidc.MockUser{Subject: subject, Email: subject + "@example.org", EmailVerified: true})
	_, header, _ := b.do(http.MethodGet, "/console/keys", "")
	status, header, _ := b.do(http.MethodGet, header.Get("Location"), "")
	if status != http.StatusSeeOther {
		b.t.Fatalf("sign-in: status %d", status)
	}
	_, header, _ = b.do(http.MethodGet, header.Get("Location"), "")
	back, err := url.Parse(header.Get("Location"))
	check.NoError(b.t, err)
	status, header, body := b.do(http.MethodGet, back.RequestURI(), "")
	if status != http.StatusSeeOther || header.Get("Location") != "/console/keys" {
		b.t.Fatalf("callback: status %d, %v", status, body)
	}
}

// console is the API with a real sign-in provider, and the stores of its accounts, keys and webhooks. Its webhooks may go to this machine.
type console struct {
	*api
	test     *testing.T
	provider *mockoidc.MockOIDC
	keyring  *webhooks.Keyring
	managed  *webhooks.Managed
}

func newConsole(t *testing.T) *console {
	t.Helper()
	keyring, err := webhooks.ParseKeyring("console:" + testkit.Secret(0))
	check.NoError(t, err)
	policy := webhooks.NewAddressPolicy(loopback)
	c := newConsoleOf(t, apitest.Options{}, func(a *apitest.API, d *developer.Deps) {
		d.Webhooks = webhooks.NewEndpoints(a.Pool, keyring, policy)
	})
	c.keyring, c.managed = keyring, webhooks.NewManaged(c.Pool, keyring, policy)
	return c
}

func newConsoleOfAda(t *testing.T) (*console, *browser) {
	t.Helper()
	c := newConsole(t)
	ada := c.signedIn("ada")
	return c, ada
}

// newConsoleOf makes a console with other options. change replaces parts of the API and of the developer endpoints.
func newConsoleOf(t *testing.T, o apitest.Options, change func(a *apitest.API, d *developer.Deps)) *console {
	t.Helper()
	c := &console{test: t, provider: newProvider(t)}
	o.Developer = func(a *apitest.API) *developer.Deps {
		d := developerOf(c.provider)(a)
		change(a, d)
		return d
	}
	c.api = newAPI(t, o)
	return c
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// open returns a browser without a session.
func (c *console) open() *browser {
	return newBrowser(c.test, "http://"+c.Address, http.Header{}, loopbackJar{}, nil)
}

func (c *console) signedIn(subject string) *browser {
	c.test.Helper()
	b := c.open()
	b.signInAt(c.provider, subject)
	return b
}

func (c *console) account(b *browser) uuid.UUID {
	c.test.Helper()
	_, _, session := b.do(http.MethodGet, "/v1/developer/session", "")
	id, err := uuid.Parse(textOf(session, "account_id"))
	check.NoError(c.test, err)
	return id
}

func (b *browser) make(path, body string) map[string]any {
	b.t.Helper()
	status, _, made := b.do(http.MethodPost, path, body)
	if status != http.StatusCreated {
		b.t.Fatalf("POST %s: %d %v", path, status, made)
	}
	return made
}

// textOf returns a field of a response, or "" if it is not a string.
func textOf(body map[string]any, field string) string {
	text, _ := body[field].(string)
	return text
}

func listOf(body map[string]any, field string) []map[string]any {
	list, _ := body[field].([]any)
	objects := make([]map[string]any, len(list))
	for i := range list {
		objects[i], _ = list[i].(map[string]any)
	}
	return objects
}

// names reports whether a refusal names the field.
func names(refusal map[string]any, field string) bool {
	return slices.ContainsFunc(listOf(refusal, "errors"), func(e map[string]any) bool { return e["field"] == field })
}

// scarceAllowance is the number of requests an hour of an address, and of a person, of [console.scarce].
const scarceAllowance = 3

// scarce serves from the console's stores with a gate of its own, whose allowance is small.
func (c *console) scarce() *api {
	c.test.Helper()
	return c.variant(httpapi.Config{}, func(deps *httpapi.Deps) {
		other := *c.API // NewGate replaces its gate
		deps.Gate = other.NewGate(gate.Config{Anonymous: keys.Tier{
			Name: "anonymous", Requests: scarceAllowance, Period: time.Hour, Burst: scarceAllowance,
		}}, deps.Logger)
	})
}

func (a *api) withSession(token string) *browser {
	a.t.Helper()
	jar := loopbackJar{}
	if token != "" {
		jar[sessionCookie] = token
	}
	return newBrowser(a.t, "http://"+a.Address, http.Header{}, jar, nil)
}

func expectAllowance(t *testing.T, name string, got response, status, remaining int) {
	t.Helper()
	if got.status != status || got.header.Get("RateLimit-Remaining") != fmt.Sprint(remaining) ||
		got.header.Get("RateLimit-Limit") != fmt.Sprint(scarceAllowance) {
		t.Errorf("%s: %d, %s of %s left, want %d, %d of %d: %s", name, got.status, got.header.Get("RateLimit-Remaining"),
			got.header.Get("RateLimit-Limit"), status, remaining, scarceAllowance, got.body)
	}
}

func TestKeylessFloodDoesNotStopARevocation(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	leaked := ada.make(keysPath, `{"name":"leaked"}`)
	token := ada.cookie(sessionCookie)
	a := c.scarce()
	for n := range scarceAllowance {
		expectAllowance(t, "flood", a.withSession("").get("/v1/exam-prep/list"), http.StatusUnauthorized, scarceAllowance-1-n)
	}
	expectAllowance(t, "without a key", a.withSession("").get("/v1/exam-prep/list"), http.StatusTooManyRequests, 0)
	expectAllowance(t, "without a session", a.withSession("").get(keysPath), http.StatusTooManyRequests, 0)
	expectAllowance(t, "made-up cookie", a.withSession("made-up").get(keysPath), http.StatusTooManyRequests, 0)

	revoked := a.withSession(token).send(http.MethodDelete, keysPath+"/"+textOf(leaked, "key_prefix"), "", nil)
	expectAllowance(t, "revocation", revoked, http.StatusNoContent, scarceAllowance-1)
	got := c.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + textOf(leaked, "key")})
	got.expect(t, http.StatusUnauthorized, "the revoked key")
}

// TestMadeUpCookieIsCountedByItsAddress: a new cookie for each request gives no new allowance.
func TestMadeUpCookieIsCountedByItsAddress(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	token := c.signedIn("ada").cookie(sessionCookie)
	a := c.scarce()
	last := len(token) - 1
	for n, made := range []string{
		"made-up", token[:last], token[:last] + string(token[last]^1), // its check is wrong
	} {
		expectAllowance(t, made, a.withSession(made).get(sessionPath), http.StatusUnauthorized, scarceAllowance-1-n)
	}
	expectAllowance(t, "another made-up cookie", a.withSession("made-up-too").get(sessionPath), http.StatusTooManyRequests, 0)
	expectAllowance(t, "without a key", a.withSession("").get("/v1/exam-prep/list"), http.StatusTooManyRequests, 0)
	expectAllowance(t, "session", a.withSession(token).get(sessionPath), http.StatusOK, scarceAllowance-1)
}

// TestEachPersonHasAnAllowance: all sessions of a person share it, the ended ones too.
func TestEachPersonHasAnAllowance(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	first := c.signedIn("ada")
	ada, ended, bob := c.signedIn("ada").cookie(sessionCookie), first.cookie(sessionCookie), c.signedIn("bob").cookie(sessionCookie)
	first.signOut(sessionPath)
	a := c.scarce()
	for n := range scarceAllowance - 1 {
		expectAllowance(t, "ada", a.withSession(ada).get(sessionPath), http.StatusOK, scarceAllowance-1-n)
	}
	expectAllowance(t, "ada's ended session", a.withSession(ended).get(sessionPath), http.StatusUnauthorized, 0)
	expectAllowance(t, "ada's next request", a.withSession(ada).get(sessionPath), http.StatusTooManyRequests, 0)
	expectAllowance(t, "with her ended session", a.withSession(ended).get(sessionPath), http.StatusTooManyRequests, 0)
	expectAllowance(t, "bob", a.withSession(bob).get(sessionPath), http.StatusOK, scarceAllowance-1)
	expectAllowance(t, "their address", a.withSession("").get("/v1/exam-prep/list"), http.StatusUnauthorized, scarceAllowance-1)
}
