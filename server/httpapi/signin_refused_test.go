package httpapi_test

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// refused checks that the browser is led to the page of refusals, which shows reason.
func (b *browser) refused(got response, reason string) {
	b.t.Helper()
	want := "/console/refused?reason=" + reason + "&request_id=" + got.header.Get("X-Request-Id")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != want || got.body != "" {
		b.t.Errorf("%d to %q, %s; want %s", got.status, got.header.Get("Location"), got.body, want)
	}
	if got.header.Get("Referrer-Policy") != "no-referrer" || got.header.Get("Cache-Control") != "no-store" {
		b.t.Errorf("the address may be kept or told on: %v", got.header)
	}
	check.Equal(b.t, b.cookie(sessionCookie), "", "session cookie")
}

// lastReason is why the last sign-in was refused, as the log has it.
func (p *premises) lastReason(t *testing.T) (reason string) {
	t.Helper()
	for line := range strings.Lines(p.Logs.String()) {
		var entry struct {
			Message string `json:"msg"`
			Reason  string `json:"reason"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err == nil && entry.Message == "sign-in refused" {
			reason = entry.Reason
		}
	}
	return reason
}

// The reasons that are logged of callbacks that are refused.
const (
	noState, noCode, noCeremony = "no sign-in was begun in this browser", "the answer holds no code", "this sign-in is over or was never begun"
	otherState, otherCode       = "the state is not the one this browser began with", "the provider does not take the code"
	otherProvider, otherNonce   = "the answer is another provider's", "the ID token's nonce is not ours"
	notSignedIn                 = "the provider did not sign the person in: invalid_request"
)

// wrongCallback is a way to come back from the provider that must not sign anybody in, and the reason that is logged.
// v is the browser that tries, ada another.
type wrongCallback struct {
	reason  string
	attempt func(v, ada *browser) response
}

// shown is the reason that the person sees.
func (c wrongCallback) shown() string {
	switch c.reason {
	case noState, noCeremony:
		return "expired"
	case notSignedIn:
		return "denied"
	default:
		return "refused"
	}
}

// forgedCallbacks answer what this browser began, but not as the provider did.
func (p *premises) forgedCallbacks() map[string]wrongCallback {
	return map[string]wrongCallback{
		"forged state": {otherState, func(v, _ *browser) response {
			return v.call(with(v.authenticate(v.begin(), "mallory"), "state", strings.Repeat("A", 43)))
		}},
		"no state": {noState, func(v, _ *browser) response {
			return v.call(with(v.authenticate(v.begin(), "mallory"), "state", ""))
		}},
		"made-up code": {otherCode, func(v, _ *browser) response {
			return v.call(with(v.authenticate(v.begin(), "mallory"), "code", "forged"))
		}},
		"no code": {noCode, func(v, _ *browser) response {
			return v.call(with(v.authenticate(v.begin(), "mallory"), "code", ""))
		}},
		"another issuer's answer": {otherProvider, func(v, _ *browser) response {
			return v.call(with(v.authenticate(v.begin(), "mallory"), "iss", "https://issuer.example"))
		}},
		"an answer that names no issuer": {otherProvider, func(v, _ *browser) response {
			return v.call(with(v.authenticate(v.begin(), "mallory"), "iss", ""))
		}},
		"forged nonce": {otherNonce, func(v, _ *browser) response { // which the provider itself then signs
			return v.call(v.authenticate(with(v.begin(), "nonce", "forged"), "mallory"))
		}},
		"another verifier": {otherCode, func(v, _ *browser) response {
			return v.call(v.authenticate(with(v.begin(), "code_challenge", strings.Repeat("A", 43)), "mallory"))
		}},
		"no verifier": {notSignedIn, func(v, _ *browser) response {
			bare := with(with(v.begin(), "code_challenge", ""), "code_challenge_method", "")
			return v.call(v.authenticate(bare, "mallory"))
		}},
		"callback that comes too late": {noCeremony, func(v, _ *browser) response {
			back := v.authenticate(v.begin(), "mallory")
			p.Ahead.Store(int64(sessions.SignInTimeout))
			defer p.Ahead.Store(0)
			return v.call(back)
		}},
	}
}

// stolenCallbacks take something of another browser, or of another time.
func stolenCallbacks() map[string]wrongCallback {
	return map[string]wrongCallback{
		"code that was used": {otherCode, func(v, ada *browser) response {
			used := ada.signIn("ada").Query().Get("code")
			return v.call(with(v.authenticate(v.begin(), "mallory"), "code", used))
		}},
		"callback that was used": {noCeremony, func(v, ada *browser) response {
			back := ada.authenticate(ada.begin(), "ada")
			v.plant(signInCookie, ada.cookie(signInCookie))
			ada.call(back).expect(v.t, http.StatusSeeOther, "the first time")
			return v.call(back)
		}},
		"callback of another browser": {noState, func(v, ada *browser) response {
			return v.call(ada.authenticate(ada.begin(), "ada"))
		}},
		"another's cookie, one's own answer": {otherState, func(v, ada *browser) response {
			ada.begin()
			back := v.authenticate(v.begin(), "mallory")
			v.plant(signInCookie, ada.cookie(signInCookie))
			return v.call(back)
		}},
		"another's cookie and state, one's own code": {otherCode, func(v, ada *browser) response {
			state := ada.begin().Query().Get("state")
			back := v.authenticate(v.begin(), "mallory")
			v.plant(signInCookie, ada.cookie(signInCookie))
			return v.call(with(back, "state", state))
		}},
		"one's own cookie, another's answer": {otherState, func(v, ada *browser) response {
			v.begin()
			return v.call(ada.authenticate(ada.begin(), "ada"))
		}},
		"one's own cookie and state, another's code": {otherCode, func(v, ada *browser) response {
			state := v.begin().Query().Get("state")
			return v.call(with(ada.authenticate(ada.begin(), "ada"), "state", state))
		}},
	}
}

func TestACallbackThatIsNotTheProvidersAnswerToThisBrowserIsRefused(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	callbacks := p.forgedCallbacks()
	maps.Copy(callbacks, stolenCallbacks())
	for name, c := range callbacks {
		t.Run(name, func(t *testing.T) {
			v := p.visitor(t)
			v.refused(c.attempt(v, p.visitor(t)), c.shown())
			check.Equal(t, p.lastReason(t), c.reason, "reason of the refusal")
		})
	}
	check.Equal(t, testkit.Get[int](t, p.Pool, `SELECT count(*) FROM account_members WHERE subject = 'mallory'`), 0, "mallory's accounts")
}

func TestAMadeUpCallbackEndsNoSignInUnderWay(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.visitor(t)
	back := ada.authenticate(ada.begin(), "ada")
	ada.refused(ada.get(callbackPath+"?state=forged&code=forged"), "refused")
	ada.call(back).expect(t, http.StatusSeeOther, "after a forged callback")
}

func TestACallbackThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	for _, query := range []string{
		"state=" + strings.Repeat("s", 129),
		"state=s&code=" + strings.Repeat("c", 4097),
		"state=s&iss=" + strings.Repeat("i", 1025),
		"state=s&error=" + strings.Repeat("e", 129),
		"state=s&state=t&code=c",
		"state=s&code=c&code=d",
		"state=%ff&code=c",
		"state=%zz&code=c",
		"state=s&code=%00",
	} {
		ada := p.visitor(t)
		ada.begin()
		ada.refused(ada.get(callbackPath+"?"+query), "refused")
	}
	ada := p.visitor(t)
	ada.begin()
	ada.get(callbackPath+"?code="+strings.Repeat("c", 9<<10)).expect(t, http.StatusRequestHeaderFieldsTooLarge, "beyond all bounds")
}

type forger struct {
	p   *premises
	own *rsa.PrivateKey
	// published are the keys of the provider itself.
	published jose.JSONWebKeySet
}

func newForger(p *premises) *forger {
	p.t.Helper()
	f := &forger{p: p, own: testKeys()[0]}
	got, err := http.Get(p.provider.issuer + "/.well-known/jwks.json")
	check.NoError(p.t, err)
	defer func() { _ = got.Body.Close() }()
	if err := json.NewDecoder(got.Body).Decode(&f.published); err != nil || len(f.published.Keys) == 0 {
		p.t.Fatalf("%d keys, %v", len(f.published.Keys), err)
	}
	return f
}

func (f *forger) forge(t *testing.T, sign func(claims map[string]any) string) {
	t.Helper()
	tokens := rewriting(t, "/token", func(answer map[string]any) {
		token, _ := answer["id_token"].(string)
		answer["id_token"] = sign(claimsOf(t, token))
	})
	keys := append(slices.Clone(f.published.Keys), jose.JSONWebKey{Key: f.own.Public(), KeyID: "forger", Algorithm: "RS256", Use: "sig"})
	f.p.provider.misbehaves(t, func(w http.ResponseWriter, r *http.Request, provider http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/jwks.json") {
			tokens(w, r, provider)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: keys})
	})
}

func signed(t *testing.T, algorithm jose.SignatureAlgorithm, key any, keyID string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, new(jose.SignerOptions).WithHeader("kid", keyID))
	if err != nil {
		t.Error(err)
		return ""
	}
	token, err := signer.Sign(payload)
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := token.CompactSerialize()
	if err != nil {
		t.Error(err)
	}
	return text
}

// wrongToken is how an ID token is made of the provider's claims, and the reason that is logged of its refusal; "" where
// it is accepted.
type wrongToken struct {
	sign   func(t *testing.T, claims map[string]any) string
	reason string
}

// wrongTokens are tokens that do not hold, but for one.
func (f *forger) wrongTokens(t *testing.T) map[string]wrongToken {
	t.Helper()
	set := func(name string, value any) func(*testing.T, map[string]any) string {
		return func(t *testing.T, claims map[string]any) string {
			t.Helper()
			claims[name] = value
			return signed(t, jose.RS256, f.own, "forger", claims)
		}
	}
	publicPEM, err := x509.MarshalPKIXPublicKey(f.own.Public())
	check.NoError(t, err)
	const (
		otherClaims, signature, nonce = "the ID token is malformed or its claims do not hold", "the ID token's signature does not hold", "the ID token's nonce is not ours"
		party, nobody, expired        = "the ID token was issued to another service", "the ID token names nobody, or not as it must", "the ID token has expired"
	)
	return map[string]wrongToken{
		"as it was":        {set("as", "it was"), ""}, // so that the others are refused for what they change
		"another audience": {set("aud", "another service"), otherClaims},
		"more audiences":   {set("aud", []string{providerClient, "another service"}), party},
		"another party":    {set("azp", "another service"), party},
		"another issuer":   {set("iss", "https://issuer.example"), otherClaims},
		"another nonce":    {set("nonce", "forged"), nonce},
		"run out":          {set("exp", time.Now().Add(-time.Minute).Unix()), expired},
		"about nobody":     {set("sub", ""), nobody},
		"alg none": {func(t *testing.T, claims map[string]any) string {
			t.Helper()
			parts := strings.Split(set("as", "it was")(t, claims), ".")
			return "eyJhbGciOiJub25lIn0." + parts[1] + "."
		}, otherClaims},
		"HS256 by the public key": {func(t *testing.T, claims map[string]any) string {
			t.Helper()
			secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicPEM})
			return signed(t, jose.HS256, secret, "forger", claims)
		}, otherClaims},
		"HS256 by the client's secret": {func(t *testing.T, claims map[string]any) string {
			t.Helper()
			return signed(t, jose.HS256, []byte(providerSecret+providerSecret), "forger", claims)
		}, otherClaims},
		"a key that is not published": {func(t *testing.T, claims map[string]any) string {
			t.Helper()
			return signed(t, jose.RS256, testKeys()[1], "unknown", claims)
		}, signature},
		"a signature under another key's name": {func(t *testing.T, claims map[string]any) string {
			t.Helper()
			return signed(t, jose.RS256, f.own, f.published.Keys[0].KeyID, claims)
		}, signature},
		"no token at all": {func(*testing.T, map[string]any) string { return "not.a.token" }, otherClaims},
	}
}

func TestATokenThatDoesNotHoldIsRefused(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	f := newForger(p)
	for name, c := range f.wrongTokens(t) {
		t.Run(name, func(t *testing.T) {
			f.forge(t, func(claims map[string]any) string { return c.sign(t, claims) })
			ada := p.visitor(t)
			got := ada.call(ada.authenticate(ada.begin(), "ada"))
			if c.reason == "" {
				if got.status != http.StatusSeeOther || ada.account() == "" {
					t.Errorf("%d %s, want it accepted", got.status, got.body)
				}
				return
			}
			ada.refused(got, "refused")
			check.Equal(t, p.lastReason(t), c.reason, "reason of the refusal")
		})
	}
	check.Equal(t, testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM account_members"), 1, "accounts, of which the token that holds has one")
}

func TestAKeyThatTheProviderTookBackIsNotTrustedForLong(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	f := newForger(p)
	sign := func(claims map[string]any) string { return signed(t, jose.RS256, f.own, "forger", claims) }
	f.forge(t, sign)
	p.visitor(t).signIn("ada")
	p.provider.misbehaves(t, rewriting(t, "/token", func(answer map[string]any) { // while its keys are its own alone
		token, _ := answer["id_token"].(string)
		answer["id_token"] = sign(claimsOf(t, token))
	}))
	p.Ahead.Store(int64(10 * time.Minute))
	v := p.visitor(t)
	v.refused(v.call(v.authenticate(v.begin(), "ada")), "refused")
	check.Equal(t, p.lastReason(t), "the ID token's signature does not hold", "reason of the refusal")
}

func TestCallbackGoesByTheCookieAndNeverByTheQuery(t *testing.T) {
	t.Parallel()
	p := newPremises(t)
	ada := p.visitor(t)
	back := ada.authenticate(ada.beginFor("/console/usage?from=2026-01-01"), "ada")
	query := back.Query()
	for _, name := range []string{"redirect_uri", "return_to", "next", "url", "target_link_uri"} {
		query.Set(name, "/console/keys")
	}
	got := ada.call(&url.URL{Scheme: back.Scheme, Host: back.Host, Path: back.Path, RawQuery: query.Encode()})
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/console/usage?from=2026-01-01" {
		t.Errorf("%d, to %q", got.status, got.header.Get("Location"))
	}
}
