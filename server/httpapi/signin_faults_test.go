package httpapi_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func unavailable(t *testing.T, what string, got response) {
	t.Helper()
	if got.status != http.StatusServiceUnavailable || got.code(t) != "service_unavailable" || got.header.Get("Retry-After") == "" {
		t.Errorf("%s: %d %s, want 503", what, got.status, got.body)
	}
}

func failing(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "out of order", http.StatusInternalServerError)
}

func saying(mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		_, _ = w.Write([]byte(body))
	}
}

// hangingUp ends the connection without an answer.
func hangingUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// redirecting sends the caller of an endpoint elsewhere, where it would find what it looked for.
func redirecting(endpoint string) misbehaviour {
	return func(w http.ResponseWriter, r *http.Request, provider http.Handler) {
		switch {
		case strings.HasSuffix(r.URL.Path, endpoint):
			w.Header().Set("Location", r.URL.Path+"/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		case strings.HasSuffix(r.URL.Path, "/elsewhere"):
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/elsewhere")
		}
		provider.ServeHTTP(w, r)
	}
}

// endless never stops answering while it is read. It fails the test if more is taken of it than any answer can hold.
func endless(t testing.TB) http.HandlerFunc {
	t.Helper()
	const plenty = 64 << 20 // with all that sockets hold
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		spaces := bytes.Repeat([]byte{' '}, 64<<10)
		for range plenty / len(spaces) {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
		t.Error("an endless answer was read on and on")
	}
}

func TestASignInBeginsAgainWhenTheProviderIsBack(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	const discovery = "/openid-configuration"
	for name, how := range map[string]misbehaviour{
		"hangs up":          answering(discovery, hangingUp),
		"fails":             answering(discovery, failing),
		"redirects":         redirecting(discovery),
		"speaks HTML":       answering(discovery, saying("text/html", "<p>Sign in</p>")),
		"says nothing":      answering(discovery, saying("application/json", "{}")),
		"never stops":       answering(discovery, endless(t)),
		"is another":        rewriting(t, discovery, func(found map[string]any) { found["issuer"] = "https://issuer.example" }),
		"has no keys":       rewriting(t, discovery, func(found map[string]any) { delete(found, "jwks_uri") }),
		"has no endpoint":   rewriting(t, discovery, func(found map[string]any) { found["token_endpoint"] = "" }),
		"names no address":  rewriting(t, discovery, func(found map[string]any) { found["authorization_endpoint"] = "javascript:alert(1)" }),
		"asks elsewhere":    rewriting(t, discovery, func(found map[string]any) { found["userinfo_endpoint"] = "ftp://127.0.0.1/" }),
		"mistakes the type": rewriting(t, discovery, func(found map[string]any) { found["jwks_uri"] = 7 }),
	} {
		behave := p.provider.misbehaves(t, how)
		ada := p.visitor(t)
		unavailable(t, "a provider that "+name, ada.get("/v1/developer/sign-in"))
		unavailable(t, "a provider that "+name+", callback", ada.get(callbackPath+"?state=s&code=c"))
		check.Equal(t, ada.cookie(signInCookie), "", "a provider that %s: cookie of the ceremony", name)
		behave()
	}
	p.visitor(t).signIn("ada")
}

func TestASignInEndsWellWhenTheProviderIsBack(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	for name, how := range map[string]misbehaviour{
		"hangs up":                    answering("/token", hangingUp),
		"fails":                       answering("/token", failing),
		"redirects":                   redirecting("/token"),
		"speaks HTML":                 answering("/token", saying("text/html", "<p>Sign in</p>")),
		"gives no ID token":           rewriting(t, "/token", func(answer map[string]any) { delete(answer, "id_token") }),
		"does not know us":            answering("/token", refusing(http.StatusUnauthorized, `{"error":"invalid_client"}`)),
		"is overloaded":               answering("/token", refusing(http.StatusServiceUnavailable, `{"error":"temporarily_unavailable"}`)),
		"hangs up before its keys":    answering("/jwks", hangingUp),
		"fails to show its keys":      answering("/jwks", failing),
		"shows something else":        answering("/jwks", saying("text/html", "<p>Keys</p>")),
		"shows keys without an end":   answering("/jwks", endless(t)),
		"shows what is no set at all": answering("/jwks", saying("application/json", `{"keys":[{"kty":"RSA"`)),
	} {
		t.Run(name, func(t *testing.T) {
			ada := p.visitor(t)
			back := ada.authenticate(ada.begin(), "ada")
			behave := p.provider.misbehaves(t, how)
			unavailable(t, "callback", ada.call(back))
			check.Equal(t, ada.cookie(sessionCookie), "", "session cookie")
			behave()
			ada.signIn("ada")
			p.provider.rotateKeys() // so that the next has to fetch them
		})
	}
}

func refusing(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestASlowProviderHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	hasty := p.variant(httpapi.Config{HandleTimeout: 500 * time.Millisecond}, nil) // all but what must wait may take its time
	hurry := func(ask func() response) response {
		p.behind.Store(&hasty.Address)
		defer p.behind.Store(&p.Address)
		return ask()
	}
	slow := func(endpoint string, release <-chan struct{}) misbehaviour {
		return func(w http.ResponseWriter, r *http.Request, provider http.Handler) {
			if r.URL.Path == endpoint {
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}
			provider.ServeHTTP(w, r)
		}
	}
	ada := p.visitor(t)
	release := make(chan struct{})
	behave := p.provider.misbehaves(t, slow("/.well-known/openid-configuration", release))
	unavailable(t, "discovery", hurry(func() response { return ada.get("/v1/developer/sign-in") }))
	check.Equal(t, ada.account(), "", "signed-in account")
	behave()
	close(release)
	back := ada.begin()
	for _, endpoint := range []string{"/token", "/jwks"} {
		release := make(chan struct{})
		callback := ada.authenticate(back, "ada")
		behave := p.provider.misbehaves(t, slow(endpoint, release))
		unavailable(t, endpoint, hurry(func() response { return ada.call(callback) }))
		behave()
		close(release)
		back = ada.begin()
	}
}

func TestAnAddressThatCannotBeAskedForIsLeftOut(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	for name, how := range map[string]misbehaviour{
		"fails":               answering("/me", failing),
		"hangs up":            answering("/me", hangingUp),
		"speaks of another":   rewriting(t, "/me", func(answer map[string]any) { answer["sub"] = "bob" }),
		"vouches for nothing": rewriting(t, "/me", func(answer map[string]any) { delete(answer, "email_verified") }),
		"has an odd one":      rewriting(t, "/me", func(answer map[string]any) { answer["email"] = "a\nb@example.org" }),
	} {
		t.Run(name, func(t *testing.T) {
			p.provider.misbehaves(t, how)
			ada := p.visitor(t)
			ada.signIn("ada")
			if session := ada.get(sessionPath).document(t); session["account"] == "" || session["email"] != nil {
				t.Errorf("%v", session)
			}
		})
	}
}

func TestWithoutPostgreSQLNobodySignsInAndNobodyIsSignedOut(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	ada, bob := p.visitor(t), p.visitor(t)
	ada.signIn("ada")
	back := bob.authenticate(bob.begin(), "bob")
	restore := testkit.CutOff(t, p.Pool)
	carol := p.visitor(t)
	carols := carol.authenticate(carol.begin(), "carol") // which takes up nothing there
	unavailable(t, "callback", bob.call(back))
	unavailable(t, "callback of a sign-in begun meanwhile", carol.call(carols))
	unavailable(t, "session", ada.get(sessionPath))
	unavailable(t, "sign-out", ada.send(http.MethodDelete, sessionPath, "", nil))
	unavailable(t, "a new key", ada.send(http.MethodPost, keysPath, `{"name":"ci"}`, nil))
	restore()
	for name, got := range map[string]response{"bob": bob.call(back), "carol": carol.call(carols)} {
		if got.status != http.StatusSeeOther { // the same callback: nothing of it was used up
			t.Errorf("callback of %s afterwards: %d %s", name, got.status, got.body)
		}
	}
	if ada.account() == "" || bob.account() == "" || carol.account() == "" {
		t.Error("a session was lost")
	}
}
