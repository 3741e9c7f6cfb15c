package httpapi_test

import (
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
)

const (
	sessionCookie = "__Host-examprep_session"
	signInCookie  = "__Host-examprep_sign_in"
	callbackPath  = "/v1/developer/callback"
	sessionPath   = "/v1/developer/session"
	keysPath      = "/v1/developer/keys"
	sessionIdle   = apitest.SessionIdle

	sessionLifetime = apitest.SessionLifetime
)

// premises are the API as people reach it, behind TLS, and the provider that it sends them to.
type premises struct {
	*api
	provider *certifiedProvider
	// origin is where browsers reach the API, behind where it really is.
	origin    string
	behind    atomic.Pointer[string]
	transport http.RoundTripper
}

// newPremises starts all of it. adjust may change what the API is made of; nil does not.
func newPremises(t testing.TB, config httpapi.Config, adjust func(p *premises)) *premises {
	t.Helper()
	p := new(premises)
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", *p.behind.Load(), r.In.Host
		r.Out.URL.RawQuery = r.In.URL.RawQuery // however broken
	}})
	t.Cleanup(front.Close)
	p.origin, p.transport = front.URL, front.Client().Transport
	p.provider = newCertifiedProvider(t, p.origin+callbackPath)
	if adjust != nil {
		adjust(p)
	}
	p.api = newAPI(t, apitest.Options{Config: config, Developer: func(a *apitest.API) *httpapi.Developer {
		return a.Developer(sessions.Provider{
			Issuer: p.provider.issuer, ClientID: providerClient, ClientSecret: providerSecret, RedirectURL: p.origin + callbackPath,
		})
	}})
	p.behind.Store(&p.Address)
	return p
}

// sessionCount is how many sessions are stored.
func (p *premises) sessionCount() int {
	p.t.Helper()
	return testkit.Get[int](p.t, p.Pool, `SELECT count(*) FROM sessions`)
}

// accounts is how many people have ever signed in.
func (p *premises) accounts() int {
	p.t.Helper()
	return testkit.Get[int](p.t, p.Pool, `SELECT count(*) FROM account_identities`)
}

// visitor is a person's browser: it keeps cookies, sends Secure ones over TLS only, and follows redirects. It stops
// before it follows one from the provider back to the API, so that a test can lay hands on it.
type visitor struct {
	t  testing.TB
	at *premises
	*http.Client
}

func (p *premises) visitor(t testing.TB) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t: t, at: p, Client: &http.Client{
		Jar: jar, Transport: p.transport,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if strings.HasPrefix(next.URL.String(), p.origin) || len(via) > 10 {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}}
}

// send asks the API and checks what every answer owes. The header replaces what a page of the API's own
// sends; an empty value takes it away.
func (v *visitor) send(method, target, body string, header map[string]string) response {
	v.t.Helper()
	all := map[string]string{"Sec-Fetch-Site": "same-origin"}
	if body != "" {
		all["Content-Type"] = "application/json"
	}
	maps.Copy(all, header)
	if header["Host"] != "" { // a name for which the jar would hold no cookies
		all["Cookie"] = sessionCookie + "=" + v.cookie(sessionCookie)
	}
	client := *v.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got, content := testkit.Call(v.t, client.Do, method, v.at.origin+target, body, all)
	for _, cookie := range got.Cookies() {
		if !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" ||
			cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge == 0 && cookie.Value != "" {
			v.t.Errorf("cookie %s may leak: %s", cookie.Name, cookie.Raw)
		}
	}
	checkExchange(v.t, got, []byte(content))
	return response{got.StatusCode, got.Header, content, got.Close}
}

func (v *visitor) get(target string) response {
	v.t.Helper()
	return v.send(http.MethodGet, target, "", nil)
}

// begin asks the API where to sign in.
func (v *visitor) begin() *url.URL {
	v.t.Helper()
	got := v.get("/v1/developer/sign-in")
	if got.status != http.StatusSeeOther {
		v.t.Fatalf("sign-in: %d %s", got.status, got.body)
	}
	address, err := url.Parse(got.header.Get("Location"))
	if err != nil {
		v.t.Fatal(err)
	}
	return address
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)
	formPrompt = regexp.MustCompile(`name="prompt" value="([a-z]+)"`)
)

// authenticate signs in on the provider's pages as subject and returns the callback that the provider sends back to.
func (v *visitor) authenticate(address *url.URL, subject string) *url.URL {
	v.t.Helper()
	return v.atProvider(address, func(page string) (*http.Response, error) {
		action, prompt := formAction.FindStringSubmatch(page), formPrompt.FindStringSubmatch(page)
		if action == nil || prompt == nil {
			v.t.Fatalf("the provider shows no form: %s", page)
		}
		return v.PostForm(html.UnescapeString(action[1]), url.Values{"prompt": {prompt[1]}, "login": {subject}, "password": {"any"}})
	})
}

var abortLink = regexp.MustCompile(`href="([^"]+/abort)"`)

// decline goes to the provider and does not sign in.
func (v *visitor) decline(address *url.URL) *url.URL {
	v.t.Helper()
	return v.atProvider(address, func(page string) (*http.Response, error) {
		link := abortLink.FindStringSubmatch(page)
		if link == nil {
			v.t.Fatalf("the provider shows no way out: %s", page)
		}
		return v.Get(html.UnescapeString(link[1]))
	})
}

// atProvider answers each page of the provider until it sends the browser back.
func (v *visitor) atProvider(address *url.URL, answer func(page string) (*http.Response, error)) *url.URL {
	v.t.Helper()
	got, err := v.Get(address.String())
	for range 5 {
		if err != nil {
			v.t.Fatal(err)
		}
		page, readErr := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if readErr != nil {
			v.t.Fatal(readErr)
		}
		if back, noRedirect := got.Location(); noRedirect == nil {
			return back
		}
		got, err = answer(string(page))
	}
	v.t.Fatal("the provider asks on and on")
	return nil
}

// call opens a callback, as the browser does when the provider sends it there.
func (v *visitor) call(back *url.URL) response {
	v.t.Helper()
	if origin := back.Scheme + "://" + back.Host; origin != v.at.origin {
		v.t.Fatalf("sent to %s, which is not the API", back)
	}
	return v.send(http.MethodGet, back.RequestURI(), "", map[string]string{"Sec-Fetch-Site": "cross-site"})
}

// signIn goes the whole way and returns the callback it came back by.
func (v *visitor) signIn(subject string) *url.URL {
	v.t.Helper()
	back := v.authenticate(v.begin(), subject)
	got := v.call(back)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != sessionPath {
		v.t.Fatalf("callback: %d %s", got.status, got.body)
	}
	return back
}

// cookie is the value of a cookie that the browser would send to the API; "" if it has none.
func (v *visitor) cookie(name string) string {
	v.t.Helper()
	origin, err := url.Parse(v.at.origin)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, cookie := range v.Jar.Cookies(origin) {
		if cookie.Name == name {
			return cookie.Value
		}
	}
	return ""
}

// plant gives the browser a cookie, as a thief does with a stolen one.
func (v *visitor) plant(name, value string) {
	v.t.Helper()
	origin, err := url.Parse(v.at.origin)
	if err != nil {
		v.t.Fatal(err)
	}
	v.Jar.SetCookies(origin, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true}})
}

// account is whose session the browser has; "" if it has none that lives.
func (v *visitor) account() string {
	v.t.Helper()
	got := v.get(sessionPath)
	switch got.status {
	case http.StatusOK:
		return textOf(got.document(v.t), "account")
	case http.StatusUnauthorized:
		return ""
	default:
		v.t.Fatalf("session: %d %s", got.status, got.body)
		return ""
	}
}

// with returns a callback one of whose parameters is another; "" takes it away.
func with(back *url.URL, name, value string) *url.URL {
	changed := *back
	query := changed.Query()
	query.Set(name, value)
	if value == "" {
		query.Del(name)
	}
	changed.RawQuery = query.Encode()
	return &changed
}
