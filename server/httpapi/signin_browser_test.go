package httpapi_test

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

const (
	sessionCookie = "__Host-examprep_session"
	signInCookie  = "__Host-examprep_sign_in"
	callbackPath  = "/v1/developer/callback"
	sessionPath   = "/v1/developer/session"
	sessionsPath  = "/v1/developer/sessions"
	keysPath      = "/v1/developer/keys"
	consolePath   = "/console/"
)

// premises are the API as people reach it, behind TLS, and the provider that it sends them to.
type premises struct {
	*api
	provider *idp
	// origin is where browsers reach the API.
	origin    string
	transport http.RoundTripper
}

// newPremises starts all of it, with mockoidc as the provider.
func newPremises(t testing.TB) *premises {
	t.Helper()
	return newPremisesAt(t, newMockProvider)
}

// newPremisesAt starts all of it with the provider that start returns. The provider may send browsers to redirect.
func newPremisesAt(t testing.TB, start func(t testing.TB, redirect string) *idp) *premises {
	t.Helper()
	p := new(premises)
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", p.Address, r.In.Host
		r.Out.URL.RawQuery = r.In.URL.RawQuery // however broken
	}})
	t.Cleanup(front.Close)
	p.origin, p.transport = front.URL, front.Client().Transport
	p.provider = start(t, p.origin+callbackPath)
	p.api = newAPI(t, apitest.Options{Developer: func(a *apitest.API) *developer.Deps {
		return a.Developer(sessions.Provider{
			Issuer: p.provider.issuer, ClientID: providerClient, ClientSecret: providerSecret, RedirectURL: p.origin + callbackPath,
		})
	}})
	return p
}

// visitor is a browser that people sign in with: it sends Secure cookies over TLS only, and says that its requests come
// from the API's own pages.
func (p *premises) visitor(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check.NoError(t, err)
	return newBrowser(t, p.origin, http.Header{"Sec-Fetch-Site": {"same-origin"}}, jar, p.transport)
}

// signedIn returns the browser of a person whose session is stored without the provider.
func (p *premises) signedIn(subject string) *browser {
	p.t.Helper()
	person := accounts.Person{Issuer: p.provider.issuer, Subject: subject}
	account := uuid.NullUUID{}
	check.NoError(p.t, pgx.BeginFunc(p.t.Context(), p.Pool, func(tx pgx.Tx) (err error) {
		account, err = accounts.NewStore(p.Pool, true, time.Now).Enter(p.t.Context(), tx, person)
		return err
	}))
	store, ok := p.Deps.Developer.Sessions.(*sessions.Store)
	if !ok {
		p.t.Fatalf("the sessions are a %T", p.Deps.Developer.Sessions)
	}
	token, err := store.Create(p.t.Context(), sessions.Session{Person: person, AccountID: account.UUID})
	check.NoError(p.t, err)
	b := p.visitor(p.t)
	b.plant(sessionCookie, token)
	return b
}

func (b *browser) get(target string) response {
	b.t.Helper()
	return b.send(http.MethodGet, target, "", nil)
}

func (b *browser) begin() *url.URL {
	b.t.Helper()
	return b.beginFor("")
}

// beginFor begins a sign-in that leads to a page of the console.
func (b *browser) beginFor(returnTo string) *url.URL {
	b.t.Helper()
	got := b.get("/v1/developer/sign-in?return_to=" + url.QueryEscape(returnTo))
	if got.status != http.StatusSeeOther {
		b.t.Fatalf("sign-in: %d %s", got.status, got.body)
	}
	address, err := url.Parse(got.header.Get("Location"))
	check.NoError(b.t, err)
	return address
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)
	formPrompt = regexp.MustCompile(`name="prompt" value="([a-z]+)"`)
)

func (b *browser) authenticate(address *url.URL, subject string) *url.URL {
	b.t.Helper()
	return b.atProvider(with(address, "login_hint", subject), func(page string) (*http.Response, error) {
		action, prompt := formAction.FindStringSubmatch(page), formPrompt.FindStringSubmatch(page)
		if action == nil || prompt == nil {
			b.t.Fatalf("the provider shows no form: %s", page)
		}
		return b.PostForm(html.UnescapeString(action[1]), url.Values{"prompt": {prompt[1]}, "login": {subject}, "password": {"any"}})
	})
}

var abortLink = regexp.MustCompile(`href="([^"]+/abort)"`)

func (b *browser) decline(address *url.URL) *url.URL {
	b.t.Helper()
	return b.atProvider(address, func(page string) (*http.Response, error) {
		link := abortLink.FindStringSubmatch(page)
		if link == nil {
			b.t.Fatalf("the provider shows no way out: %s", page)
		}
		return b.Get(html.UnescapeString(link[1]))
	})
}

// atProvider answers each page of the provider until it sends the browser back.
func (b *browser) atProvider(address *url.URL, answer func(page string) (*http.Response, error)) *url.URL {
	b.t.Helper()
	got, err := b.Get(address.String())
	for range 5 {
		check.NoError(b.t, err)
		page, readErr := io.ReadAll(got.Body)
		_ = got.Body.Close()
		check.NoError(b.t, readErr)
		if back, noRedirect := got.Location(); noRedirect == nil {
			return back
		}
		got, err = answer(string(page))
	}
	b.t.Fatal("the provider asks on and on")
	return nil
}

func (b *browser) call(back *url.URL) response {
	b.t.Helper()
	if origin := back.Scheme + "://" + back.Host; origin != b.origin {
		b.t.Fatalf("sent to %s, which is not the API", back)
	}
	return b.send(http.MethodGet, back.RequestURI(), "", map[string]string{"Sec-Fetch-Site": "cross-site"})
}

func (b *browser) signIn(subject string) *url.URL {
	b.t.Helper()
	back := b.authenticate(b.begin(), subject)
	got := b.call(back)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != consolePath {
		b.t.Fatalf("callback: %d %s", got.status, got.body)
	}
	return back
}

// signOut ends the session, or all of the person, by the path.
func (b *browser) signOut(path string) {
	b.t.Helper()
	b.send(http.MethodDelete, path, "", nil).expect(b.t, http.StatusNoContent, "sign-out")
	check.Equal(b.t, b.cookie(sessionCookie), "", "cookie after the sign-out")
}

// cookie is the value of a cookie that the browser would send to the API; "" if it has none.
func (b *browser) cookie(name string) string {
	b.t.Helper()
	origin, err := url.Parse(b.origin)
	check.NoError(b.t, err)
	for _, cookie := range b.Jar.Cookies(origin) {
		if cookie.Name == name {
			return cookie.Value
		}
	}
	return ""
}

// plant gives the browser a cookie, as a thief does with a stolen one.
func (b *browser) plant(name, value string) {
	b.t.Helper()
	origin, err := url.Parse(b.origin)
	check.NoError(b.t, err)
	b.Jar.SetCookies(origin, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true}})
}

func (b *browser) account() string {
	b.t.Helper()
	got := b.get(sessionPath)
	switch got.status {
	case http.StatusOK:
		return textOf(got.document(b.t), "account")
	case http.StatusUnauthorized:
		return ""
	default:
		b.t.Fatalf("session: %d %s", got.status, got.body)
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
