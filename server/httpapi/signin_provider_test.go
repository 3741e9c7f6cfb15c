package httpapi_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

// packagesVariable names the variable that says where the packages of hack/npm are. hack/dev installs them for packages
// whose tests contain this name.
const packagesVariable = "EXAMPREP_TEST_NPM"

const (
	providerClient = "examprep"
	providerSecret = "a secret: with / + % & = in it"
)

// idp is an OpenID Connect provider. A test can make it misbehave as it never would by itself.
type idp struct {
	t      testing.TB
	issuer string
	// provider answers, unless a test has set misbehave.
	provider  http.Handler
	misbehave atomic.Pointer[misbehaviour]
	// rotateKeys makes it sign with a new key, which alone it publishes from then on.
	rotateKeys func()
}

// newIDP reserves the address of a provider. It ends with the test.
func newIDP(t testing.TB) *idp {
	t.Helper()
	p := &idp{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if misbehave := p.misbehave.Load(); misbehave != nil {
			(*misbehave)(w, r, p.provider)
			return
		}
		p.provider.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.issuer = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // cookies know no ports: another host than the API's
	return p
}

type misbehaviour func(w http.ResponseWriter, r *http.Request, provider http.Handler)

// misbehaves has it do so until the returned function is called, or the test ends.
func (p *idp) misbehaves(t testing.TB, how misbehaviour) (behave func()) {
	t.Helper()
	p.misbehave.Store(&how)
	behave = func() { p.misbehave.Store(nil) }
	t.Cleanup(behave)
	return behave
}

// answering is the misbehaviour of one endpoint, told by how its path ends.
func answering(endpoint string, answer http.HandlerFunc) misbehaviour {
	return func(w http.ResponseWriter, r *http.Request, provider http.Handler) {
		if strings.HasSuffix(r.URL.Path, endpoint) {
			answer(w, r)
			return
		}
		provider.ServeHTTP(w, r)
	}
}

// rewriting passes the provider's answers at an endpoint through change.
func rewriting(t testing.TB, endpoint string, change func(answer map[string]any)) misbehaviour {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request, provider http.Handler) {
		if !strings.HasSuffix(r.URL.Path, endpoint) {
			provider.ServeHTTP(w, r)
			return
		}
		rewrite(t, provider, w, r, change)
	}
}

// rewrite answers as the provider does, but for change.
func rewrite(t testing.TB, provider http.Handler, w http.ResponseWriter, r *http.Request, change func(answer map[string]any)) {
	t.Helper()
	kept := httptest.NewRecorder()
	r.Header.Del("Accept-Encoding")
	provider.ServeHTTP(kept, r)
	var answer map[string]any
	check.Succeeds(t, json.NewDecoder(kept.Body).Decode(&answer), "%s", r.URL.Path)
	change(answer)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(kept.Code)
	_ = json.NewEncoder(w).Encode(answer)
}

func claimsOf(t testing.TB, token string) map[string]any {
	t.Helper()
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		t.Error(err)
		return nil
	}
	var claims map[string]any
	if err := json.NewDecoder(bytes.NewReader(parsed.UnsafePayloadWithoutVerification())).Decode(&claims); err != nil {
		t.Error(err)
	}
	return claims
}

// mockProvider is mockoidc with what certified providers do besides: it requires PKCE (S256) and the registered address, names
// itself in callbacks (RFC 9207), accepts client_secret_basic, and has the e-mail address in UserInfo alone. The person of
// login_hint signs in; without one, the person declines.
type mockProvider struct {
	*mockoidc.MockOIDC

	t        testing.TB
	redirect string
	mu       sync.Mutex // mockoidc's handlers share sessions without a lock
}

// newMockProvider runs one whose client may be sent back to redirect.
func newMockProvider(t testing.TB, redirect string) *idp {
	t.Helper()
	mock, err := mockoidc.NewServer(nil)
	check.NoError(t, err)
	p, m := newIDP(t), &mockProvider{MockOIDC: mock, t: t, redirect: redirect}
	m.ClientID, m.ClientSecret, m.AccessTTL = providerClient, providerSecret, time.Hour
	m.Server = &http.Server{Addr: strings.TrimPrefix(p.issuer, "http://")} // never started: mockoidc makes addresses of it
	p.issuer, p.provider, p.rotateKeys = m.Issuer(), m, m.rotateKeys
	return p
}

// ServeHTTP answers one request at a time.
func (m *mockProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r.URL.Path {
	case mockoidc.DiscoveryEndpoint:
		rewrite(m.t, http.HandlerFunc(m.Discovery), w, r, func(found map[string]any) {
			found["authorization_response_iss_parameter_supported"] = true
		})
	case mockoidc.AuthorizationEndpoint:
		m.authorize(w, r)
	case mockoidc.TokenEndpoint:
		m.token(w, r)
	case mockoidc.UserinfoEndpoint:
		m.Userinfo(w, r)
	case mockoidc.JWKSEndpoint:
		m.JWKS(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (m *mockProvider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	sendBack := func(code string) {
		back := url.Values{"error": {code}, "state": {query.Get("state")}, "iss": {m.Issuer()}}
		http.Redirect(w, r, m.redirect+"?"+back.Encode(), http.StatusSeeOther)
	}
	switch subject := query.Get("login_hint"); {
	case query.Get("redirect_uri") != m.redirect:
		http.Error(w, "the redirect_uri is not registered", http.StatusBadRequest)
	case query.Get("code_challenge") == "", query.Get("code_challenge_method") != mockoidc.CodeChallengeMethodS256:
		sendBack("invalid_request")
	case subject == "":
		sendBack("access_denied")
	default:
		m.QueueUser(person{&mockoidc.MockUser{Subject: subject}})
		query.Set("redirect_uri", m.redirect+"?"+url.Values{"iss": {m.Issuer()}}.Encode()) // mockoidc adds to it
		r.Form = query
		m.Authorize(w, r)
	}
}

func (m *mockProvider) token(w http.ResponseWriter, r *http.Request) {
	check.Succeeds(m.t, r.ParseForm(), "form of a request for tokens")
	if id, secret, basic := r.BasicAuth(); basic { // mockoidc reads the form alone
		for name, value := range map[string]string{"client_id": id, "client_secret": secret} {
			value, err := url.QueryUnescape(value) // RFC 6749 §2.3.1
			check.Succeeds(m.t, err, "%s of a request for tokens", name)
			r.Form.Set(name, value)
		}
	}
	if r.Form.Get("redirect_uri") != m.redirect {
		refusing(http.StatusBadRequest, `{"error":"invalid_grant"}`)(w, r)
		return
	}
	m.Token(w, r)
}

func (m *mockProvider) rotateKeys() {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := mockoidc.DefaultKeypair()
	check.Succeeds(m.t, err, "key of mockoidc")
	if next.PublicKey.Equal(m.Keypair.PublicKey) {
		key := testKeys()[0]
		next = &mockoidc.Keypair{PrivateKey: key, PublicKey: &key.PublicKey}
	}
	next.Kid = rand.Text()
	m.Keypair = next
}

// person is a user whose e-mail address only UserInfo has. It is verified unless the subject says otherwise.
type person struct{ *mockoidc.MockUser }

// Userinfo returns the claims of OpenID Connect Core §5.1 that mockoidc lacks.
func (p person) Userinfo([]string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"sub": p.Subject, "email": p.Subject + "@example.org", "email_verified": !strings.HasPrefix(p.Subject, "unverified"),
	})
}

// testKeys returns two keys that are not mockoidc's. To make one takes a second of a busy machine.
var testKeys = sync.OnceValue(func() (keys [2]*rsa.PrivateKey) {
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	return keys
})

// nodeProvider is oidc-provider, a certified OpenID Connect provider, in a process of its own.
type nodeProvider struct {
	t        testing.TB
	commands io.Writer
	said     *bufio.Scanner
}

// newCertifiedProvider runs oidc-provider for a client that may be sent back to redirect.
func newCertifiedProvider(t testing.TB, redirect string) *idp {
	t.Helper()
	p, node := newIDP(t), &nodeProvider{t: t}
	behind := &url.URL{Scheme: "http", Host: "127.0.0.1:" + node.start(testenv.Get(t, packagesVariable), p.issuer, redirect)}
	p.provider, p.rotateKeys = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(behind)
			r.Out.Host = r.In.Host // the provider's addresses are those of the proxy
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}, node.rotateKeys
	return p
}

func (p *nodeProvider) start(packages, issuer, redirect string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), filepath.Join(packages, "bin", "node"),
		filepath.Join("testdata", "provider.mjs"), packages, issuer, providerClient, providerSecret, redirect)
	complaints := new(testkit.Record)
	cmd.Stderr = complaints
	commands, err := cmd.StdinPipe()
	check.NoError(p.t, err)
	output, err := cmd.StdoutPipe()
	check.NoError(p.t, err)
	check.NoError(p.t, cmd.Start())
	p.t.Cleanup(func() {
		_ = commands.Close() // ends it
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("the provider said: %s", complaints)
		}
	})
	p.commands, p.said = commands, bufio.NewScanner(output)
	return p.await("port ")
}

// await reads what the provider says until a line that begins so, and returns its rest.
func (p *nodeProvider) await(prefix string) string {
	p.t.Helper()
	for p.said.Scan() {
		if rest, ok := strings.CutPrefix(p.said.Text(), prefix); ok {
			return rest
		}
	}
	p.t.Fatalf("the provider ended: %v", p.said.Err())
	return ""
}

func (p *nodeProvider) rotateKeys() {
	p.t.Helper()
	_, err := io.WriteString(p.commands, "rotate\n")
	check.NoError(p.t, err)
	p.await("done")
}
