package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"

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

// certifiedProvider is oidc-provider, a certified OpenID Connect provider, in a process of its own. Everybody reaches it
// through a proxy, so that a test can make it misbehave as it never would by itself.
type certifiedProvider struct {
	t      testing.TB
	issuer string
	// misbehave answers in the provider's stead, or has it answer; nil: the provider answers.
	misbehave atomic.Pointer[misbehaviour]

	commands io.Writer
	said     *bufio.Scanner
}

type misbehaviour func(w http.ResponseWriter, r *http.Request, provider http.Handler)

// newCertifiedProvider runs one whose client may be sent back to redirect. It ends with the test.
func newCertifiedProvider(t testing.TB, redirect string) *certifiedProvider {
	t.Helper()
	packages := testenv.Get(t, packagesVariable)
	p := &certifiedProvider{t: t}
	var behind atomic.Pointer[url.URL]
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(behind.Load())
			r.Out.Host = r.In.Host // the provider's addresses are those of the proxy
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if misbehave := p.misbehave.Load(); misbehave != nil {
			(*misbehave)(w, r, through)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p.issuer = strings.Replace(front.URL, "127.0.0.1", "localhost", 1) // cookies know no ports: another host than the API's
	behind.Store(&url.URL{Scheme: "http", Host: "127.0.0.1:" + p.start(packages, redirect)})
	return p
}

func (p *certifiedProvider) start(packages, redirect string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), filepath.Join(packages, "bin", "node"),
		filepath.Join("testdata", "provider.mjs"), packages, p.issuer, providerClient, providerSecret, redirect)
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
func (p *certifiedProvider) await(prefix string) string {
	p.t.Helper()
	for p.said.Scan() {
		if rest, ok := strings.CutPrefix(p.said.Text(), prefix); ok {
			return rest
		}
	}
	p.t.Fatalf("the provider ended: %v", p.said.Err())
	return ""
}

func (p *certifiedProvider) rotateKeys() {
	p.t.Helper()
	_, err := io.WriteString(p.commands, "rotate\n")
	check.NoError(p.t, err)
	p.await("done")
}

// misbehaves has it do so until the returned function is called, or the test ends.
func (p *certifiedProvider) misbehaves(t testing.TB, how misbehaviour) (behave func()) {
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
