package httpapi_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func TestAPersonSignsInAndMakesAKey(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	p.signInAndMakeAKey(t)
}

// signInAndMakeAKey goes all the way, and checks each step.
func (p *premises) signInAndMakeAKey(t *testing.T) {
	t.Helper()
	ada := p.visitor(t)
	address := ada.begin()
	query := address.Query()
	if query.Get("code_challenge_method") != "S256" || query.Get("response_type") != "code" || query.Get("nonce") == "" {
		t.Errorf("the provider is asked for %s", address)
	}
	back := ada.authenticate(address, "ada")
	check.Equal(t, back.Query().Get("iss"), p.provider.issuer, "issuer in %s", back)
	got := ada.call(back)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != consolePath {
		t.Fatalf("callback: %d %s", got.status, got.body)
	}
	if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("the callback may be kept or told on: %v", got.header)
	}
	check.Equal(t, ada.cookie(signInCookie), "", "cookie of the ceremony")
	for _, cookie := range (&http.Response{Header: got.header}).Cookies() {
		if cookie.Name == sessionCookie {
			check.Equal(t, time.Duration(cookie.MaxAge)*time.Second, apitest.SessionLifetime, "lifetime of the session's cookie")
		}
	}
	session := ada.get(sessionPath)
	if whose := session.document(t); whose["account"] != p.provider.issuer+"#ada" || whose["email"] != "ada@example.org" ||
		session.header.Get("Cache-Control") != "no-store" {
		t.Errorf("session: %v %v", whose, session.header)
	}
	made := ada.send(http.MethodPost, keysPath, `{"name":"ci"}`, map[string]string{"Origin": p.origin})
	key := textOf(made.document(t), "key")
	if _, valid := keys.Parse([]byte(key)); made.status != http.StatusCreated || !valid {
		t.Fatalf("create: %d %s", made.status, made.body)
	}
	check.Equal(t, p.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + key}).status, http.StatusOK, "status with the key")
}

// TestSignInAtACertifiedProvider holds what mockoidc, by which the other tests sign in, leaves to be believed.
func TestSignInAtACertifiedProvider(t *testing.T) {
	testkit.Soak(t)
	p := newPremisesAt(t, newCertifiedProvider)
	t.Run("a person makes a key", p.signInAndMakeAKey)
	t.Run("its keys are new", func(t *testing.T) {
		before := p.visitor(t)
		before.signIn("ada")
		p.provider.rotateKeys()
		after := p.visitor(t)
		after.signIn("ada")
		check.Equal(t, after.account(), before.account(), "account after the rotation")
	})
	t.Run("a person declines", func(t *testing.T) {
		ada := p.visitor(t)
		back := ada.decline(ada.begin())
		check.Equal(t, back.Query().Get("error"), "access_denied", "error that the provider reports")
		ada.refused(ada.call(back), "denied")
	})
	for name, c := range p.forgedCallbacks() {
		t.Run(name, func(t *testing.T) {
			v := p.visitor(t)
			v.refused(c.attempt(v, p.visitor(t)), c.shown())
			check.Equal(t, p.lastReason(t), c.reason, "reason of the refusal")
		})
	}
	for name, c := range stolenCallbacks() {
		t.Run(name, func(t *testing.T) {
			v := p.visitor(t)
			v.refused(c.attempt(v, p.visitor(t)), c.shown())
			check.Equal(t, p.lastReason(t), c.reason, "reason of the refusal")
		})
	}
}

func TestTheSameSubjectFindsItsAccountAgain(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	home, work, bob := p.visitor(t), p.visitor(t), p.visitor(t)
	home.signIn("ada")
	if made := home.send(http.MethodPost, keysPath, `{"name":"ci"}`, nil); made.status != http.StatusCreated {
		t.Fatalf("create: %d", made.status)
	}
	p.provider.rotateKeys()
	work.signIn("ada")
	bob.signIn("unverified-bob")
	if home.account() != work.account() || work.account() == bob.account() {
		t.Errorf("accounts: %q, %q and %q", home.account(), work.account(), bob.account())
	}
	if list := work.get(keysPath); len(listOf(list.document(t), "keys")) != 1 {
		t.Errorf("the key is not there: %s", list.body)
	}
	if email, told := bob.get(sessionPath).document(t)["email"]; told {
		t.Errorf("an address that nobody verified is shown: %v", email)
	}
	check.Equal(t, testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM account_members"), 2, "accounts")
}

func TestASessionPlantedBeforeTheSignInIsNotAdopted(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	thief, ada := p.visitor(t), p.visitor(t)
	thief.signIn("thief")
	planted := thief.cookie(sessionCookie)
	for _, planted := range []string{planted, strings.Repeat("A", 43)} {
		ada.plant(sessionCookie, planted)
		ada.signIn("ada")
		if ada.cookie(sessionCookie) == planted || !strings.HasSuffix(ada.account(), "#ada") {
			t.Errorf("the planted cookie became a session of %q", ada.account())
		}
		thief.plant(sessionCookie, planted)
		check.Equal(t, thief.account(), "", "the planted session lives on; its account")
	}
}

func TestWhoDeclinesAtTheProviderIsToldSo(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.visitor(t)
	back := ada.decline(ada.begin())
	if back.Query().Get("error") != "access_denied" {
		t.Fatalf("sent back with %s", back)
	}
	ada.refused(ada.call(back), "denied")
	if ada.cookie(sessionCookie) != "" || testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM account_members") != 0 {
		t.Error("something was gained")
	}
	ada.signIn("ada") // a later sign-in succeeds
}

func TestAnEndedSessionIsRefused(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.signedIn("ada")
	p.Ahead.Store(int64(apitest.SessionIdle - time.Minute))
	if ada.account() == "" {
		t.Fatal("the session ended early")
	}
	p.Ahead.Store(int64(apitest.SessionLifetime))
	check.Equal(t, ada.account(), "", "the session lives on; its account")
	ada.send(http.MethodPost, keysPath, `{"name":"late"}`, nil).expect(t, http.StatusUnauthorized, "a key is made")
}

func TestASignOutEndsTheSessionOnTheServer(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	home, work := p.signedIn("ada"), p.signedIn("ada")
	kept := home.cookie(sessionCookie)
	home.signOut(sessionPath)
	home.plant(sessionCookie, kept)
	check.Equal(t, home.account(), "", "the kept cookie is still good; its account")
	home.send(http.MethodDelete, sessionPath, "", nil).expect(t, http.StatusUnauthorized, "a second time")
	if work.account() == "" {
		t.Error("the other session ended as well")
	}
}

func TestASignOutEverywhereEndsAllSessionsOfThePersonAlone(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	home, work, bob := p.signedIn("ada"), p.signedIn("ada"), p.signedIn("bob")
	home.signOut(sessionsPath)
	check.Equal(t, work.account(), "", "a session lives on; its account")
	if bob.account() == "" {
		t.Error("another's session ended")
	}
	work.signIn("ada")
	if work.account() == "" {
		t.Error("nobody can sign in any more")
	}
}

func TestARequestInHandDoesNotBringItsSessionBack(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	home, work := p.signedIn("ada"), p.signedIn("ada")
	keys := testkit.Begin(t, p.Pool, "LOCK TABLE api_keys IN SHARE MODE") // new ones are not written until it ends
	answered := make(chan int, 1)
	go func() { answered <- work.send(http.MethodPost, keysPath, `{"name":"in hand"}`, nil).status }()
	testkit.Eventually(t, "the request waits for the table", func() bool {
		var waiting bool
		err := p.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'api_keys'::regclass)`).Scan(&waiting)
		return err == nil && waiting
	})
	home.signOut(sessionsPath)
	testkit.Release(t, keys)
	check.Equal(t, testkit.Receive(t, answered, "the answer to the request in hand"), http.StatusCreated, "what had been let in")
	if work.account() != "" || testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM sessions") != 0 {
		t.Error("the session came back")
	}
}

func TestEverySessionIsFoundByTheNextSignOutEverywhere(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	const many = 8
	var visitors [many]*browser
	var backs [many]*url.URL
	for i := range many {
		visitors[i] = p.visitor(t)
		backs[i] = visitors[i].authenticate(visitors[i].begin(), "ada")
	}
	ada := p.visitor(t)
	ada.signIn("ada")
	var all sync.WaitGroup
	for i, v := range visitors {
		all.Go(func() {
			v.call(backs[i]).expect(t, http.StatusSeeOther, "callback")
		})
	}
	all.Go(func() { ada.signOut(sessionsPath) })
	all.Wait()
	ada.signIn("ada")
	ada.signOut(sessionsPath)
	for _, v := range visitors {
		check.Equal(t, v.account(), "", "a session was missed; its account")
	}
	check.Equal(t, testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM sessions"), 0, "stored sessions")
}

func TestWhatAPageOfAnotherOriginSendsChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.signedIn("ada")
	key := textOf(ada.send(http.MethodPost, keysPath, `{"name":"ci"}`, nil).document(t), "key_prefix")
	hook := textOf(ada.send(http.MethodPost, "/v1/developer/webhooks",
		`{"url":"https://receiver.example/","events":["mock_attempt.scored"]}`, nil).document(t), "id")
	before := ada.get(keysPath).body + ada.get("/v1/developer/webhooks/"+hook).body
	for name, header := range map[string]map[string]string{
		"another site":                 {"Sec-Fetch-Site": "cross-site"},
		"a sibling's page":             {"Sec-Fetch-Site": "same-site"},
		"what no browser says":         {"Sec-Fetch-Site": "same-origin, cross-site"},
		"an older browser elsewhere":   {"Sec-Fetch-Site": "", "Origin": "https://evil.example"},
		"another port":                 {"Sec-Fetch-Site": "", "Origin": "https://127.0.0.1:1"},
		"a sandboxed frame":            {"Sec-Fetch-Site": "", "Origin": "null"},
		"the host's page, without TLS": {"Sec-Fetch-Site": "", "Host": "developers.example", "Origin": "http://developers.example"},
	} {
		for _, call := range []struct{ method, path, body string }{
			{http.MethodPost, keysPath, `{"name":"forged"}`},
			{http.MethodPost, keysPath + "/" + key + "/rotate", `{"overlap_seconds":0}`},
			{http.MethodDelete, keysPath + "/" + key, ""},
			{http.MethodPatch, "/v1/developer/webhooks/" + hook, `{"url":"https://evil.example/"}`},
			{http.MethodPost, "/v1/developer/webhooks/" + hook + "/rotate-secret", ""},
			{http.MethodDelete, "/v1/developer/webhooks/" + hook, ""},
			{http.MethodDelete, sessionsPath, ""},
		} {
			got := ada.send(call.method, call.path, call.body, header)
			if got.status != http.StatusForbidden || got.code(t) != "forbidden" {
				t.Errorf("%s: %s %s: %d %s, want 403", name, call.method, call.path, got.status, got.body)
			}
		}
	}
	check.Equal(t, ada.get(keysPath).body+ada.get("/v1/developer/webhooks/"+hook).body, before, "what is stored has changed")
}

func TestItsOwnPagesAndProgramsMayChangeThings(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.signedIn("ada")
	for name, header := range map[string]map[string]string{
		"its own page":                  {"Sec-Fetch-Site": "same-origin"},
		"the person":                    {"Sec-Fetch-Site": "none"},
		"its own page, older":           {"Sec-Fetch-Site": "", "Origin": p.origin},
		"its own page, another host":    {"Sec-Fetch-Site": "", "Host": "developers.example", "Origin": "https://developers.example"},
		"its own page, on this machine": {"Sec-Fetch-Site": "", "Host": "localhost:8080", "Origin": "http://localhost:8080"},
		"a program":                     {"Sec-Fetch-Site": ""},
	} {
		ada.send(http.MethodPost, keysPath, `{"name":"ci"}`, header).expect(t, http.StatusCreated, "%s", name)
	}
}

func TestASignInNeedsNoOriginButReadsNeedASession(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	for _, path := range []string{keysPath, sessionPath, "/v1/developer/webhooks", "/v1/developer/usage"} {
		header := map[string]string{"Cookie": sessionCookie + "=" + strings.Repeat("A", 43)}
		for range 2 {
			p.visitor(t).send(http.MethodGet, path, "", header).expect(t, http.StatusUnauthorized, "%s with %v", path, header)
			header = maps.Clone(header)
			header["Cookie"] = sessionCookie + "="
		}
	}
}

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

func refusing(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
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
	p := newPremises(t)
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
		ada.refused(ada.get("/v1/developer/sign-in"), "provider")
		ada.refused(ada.get(callbackPath+"?state=s&code=c"), "provider")
		check.Equal(t, ada.cookie(signInCookie), "", "a provider that %s: cookie of the ceremony", name)
		behave()
	}
	p.visitor(t).signIn("ada")
}

func TestASignInEndsWellWhenTheProviderIsBack(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	for name, how := range map[string]misbehaviour{
		"hangs up":                    answering("/token", hangingUp),
		"fails":                       answering("/token", failing),
		"redirects":                   redirecting("/token"),
		"speaks HTML":                 answering("/token", saying("text/html", "<p>Sign in</p>")),
		"gives no ID token":           rewriting(t, "/token", func(answer map[string]any) { delete(answer, "id_token") }),
		"does not know us":            answering("/token", refusing(http.StatusUnauthorized, `{"error":"invalid_client"}`)),
		"is overloaded":               answering("/token", refusing(http.StatusServiceUnavailable, `{"error":"temporarily_unavailable"}`)),
		"hangs up before its keys":    answering("/jwks.json", hangingUp),
		"fails to show its keys":      answering("/jwks.json", failing),
		"shows something else":        answering("/jwks.json", saying("text/html", "<p>Keys</p>")),
		"shows keys without an end":   answering("/jwks.json", endless(t)),
		"shows what is no set at all": answering("/jwks.json", saying("application/json", `{"keys":[{"kty":"RSA"`)),
	} {
		t.Run(name, func(t *testing.T) {
			ada := p.visitor(t)
			back := ada.authenticate(ada.begin(), "ada")
			behave := p.provider.misbehaves(t, how)
			ada.refused(ada.call(back), "provider")
			behave()
			ada.signIn("ada")
			p.provider.rotateKeys() // so that the next has to fetch them
		})
	}
}

func TestAnAddressThatCannotBeAskedForIsLeftOut(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	for name, how := range map[string]misbehaviour{
		"fails":               answering("/userinfo", failing),
		"hangs up":            answering("/userinfo", hangingUp),
		"speaks of another":   rewriting(t, "/userinfo", func(answer map[string]any) { answer["sub"] = "bob" }),
		"vouches for nothing": rewriting(t, "/userinfo", func(answer map[string]any) { delete(answer, "email_verified") }),
		"has an odd one":      rewriting(t, "/userinfo", func(answer map[string]any) { answer["email"] = "a\nb@example.org" }),
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
	p := newPremises(t)
	ada, bob := p.visitor(t), p.visitor(t)
	ada.signIn("ada")
	back := bob.authenticate(bob.begin(), "bob")
	restore := testkit.CutOff(t, p.Pool)
	carol := p.visitor(t)
	carols := carol.authenticate(carol.begin(), "carol") // which takes up nothing there
	bob.refused(bob.call(back), "unavailable")
	carol.refused(carol.call(carols), "unavailable")
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
