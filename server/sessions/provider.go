package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// providerTimeout bounds each call to the provider: discovery, keys, token endpoint.
	providerTimeout = 5 * time.Second
	// maxAnswer bounds what is read of each of its answers.
	maxAnswer = 1 << 20
	// discoveryLife is how long the provider's configuration and keys are used before they are read again. If that fails,
	// they are used for as long again.
	discoveryLife = 10 * time.Minute
)

const codeUnreachable = "unreachable"

// provider is a discovered provider.
type provider struct {
	*oidc.Provider

	issuer     string
	endpoint   oauth2.Endpoint
	keys       oidc.KeySet
	algorithms []string
	authStyles []oauth2.AuthStyle
	// sendsIssuer reports whether each of its callbacks names it (RFC 9207).
	sendsIssuer bool
	expiresAt   atomic.Int64 // Unix nanoseconds
}

// newClient returns the client for the provider. It follows no redirect, which could carry a code and the client's secret
// to another host, and it bounds the bodies that it reads.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       providerTimeout,
		Transport:     limitBodies{http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// limitBodies truncates bodies: go-oidc reads them whole.
type limitBodies struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b limitBodies) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err //nolint:wrapcheck // the client's own error
}

// client returns the provider, and discovers it if it is unknown or its time is up. If that fails, a known provider stays
// in use.
func (s *SignIn) client(ctx context.Context) (*oauth2.Config, *provider, error) {
	current := s.discovered.Load()
	if current == nil || s.store.now().UnixNano() >= current.expiresAt.Load() {
		found, err := s.discover(ctx)
		switch {
		case err == nil:
			current = found
		case current == nil:
			return nil, nil, &ProviderError{Code: codeUnreachable, Err: err}
		}
	}
	return &oauth2.Config{
		ClientID: s.provider.ClientID, ClientSecret: s.provider.ClientSecret, RedirectURL: s.provider.RedirectURL,
		Endpoint: current.endpoint, Scopes: []string{oidc.ScopeOpenID, "email"},
	}, current, nil
}

// discover asks the provider once for all callers that wait, each as long as its own time lasts.
func (s *SignIn) discover(ctx context.Context) (*provider, error) {
	// The provider's key set refreshes itself long after this request: it must not inherit its end.
	lasting := oidc.ClientContext(context.WithoutCancel(ctx), s.http)
	answer := s.discovery.DoChan("", func() (any, error) {
		found, err := discover(lasting, s.provider)
		expiry := s.store.now().Add(discoveryLife).UnixNano()
		if err != nil {
			if known := s.discovered.Load(); known != nil {
				known.expiresAt.Store(expiry)
			}
			return nil, err
		}
		found.expiresAt.Store(expiry)
		s.discovered.Store(found)
		return found, nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("discover: %w", context.Cause(ctx))
	case got := <-answer:
		found, _ := got.Val.(*provider)
		return found, got.Err //nolint:wrapcheck // discover's own
	}
}

// discover asks the provider. ctx is kept for fetching its keys later on.
func discover(ctx context.Context, registered Provider) (*provider, error) {
	found, err := oidc.NewProvider(ctx, registered.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	var configuration struct {
		Keys        string   `json:"jwks_uri"`
		Algorithms  []string `json:"id_token_signing_alg_values_supported"`
		Methods     []string `json:"token_endpoint_auth_methods_supported"`
		SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := found.Claims(&configuration); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	endpoint := found.Endpoint()
	for _, address := range []string{endpoint.AuthURL, endpoint.TokenURL, configuration.Keys} {
		if err := checkEndpoint(registered.Issuer, address); err != nil {
			return nil, err
		}
	}
	// Never none, and never a shared secret: a public key must not be taken for one.
	asymmetric := []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
	}
	return &provider{
		Provider: found, issuer: registered.Issuer, endpoint: endpoint, keys: oidc.NewRemoteKeySet(ctx, configuration.Keys),
		algorithms: slices.DeleteFunc(configuration.Algorithms, func(a string) bool { return !slices.Contains(asymmetric, a) }),
		authStyles: authStyles(registered, configuration.Methods), sendsIssuer: configuration.SendsIssuer,
	}, nil
}

// checkEndpoint refuses what is no address, and plain HTTP where the issuer has HTTPS.
func checkEndpoint(issuer, address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && (parsed.Scheme != "http" || strings.HasPrefix(issuer, "https:")) {
		return errors.New("the provider's configuration lacks an endpoint, or has one without TLS")
	}
	return nil
}

// authStyles are the ways in which this service may name itself at the token endpoint, the likelier first. A provider that
// lists no method takes Basic (OpenID Connect Discovery §3); of one that lists several it is not known which this service
// is registered for.
func authStyles(registered Provider, methods []string) []oauth2.AuthStyle {
	posts, basic := slices.Contains(methods, "client_secret_post"), slices.Contains(methods, "client_secret_basic")
	switch {
	case registered.ClientSecret == "", posts && !basic:
		return []oauth2.AuthStyle{oauth2.AuthStyleInParams}
	case posts:
		return []oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams}
	default:
		return []oauth2.AuthStyle{oauth2.AuthStyleInHeader}
	}
}

// exchange redeems a code. Only where the provider did not know this service by its first way is the second tried: a code
// that may have been looked at already is used up. (x/oauth2, left to itself, tries again whatever went wrong.)
func (p *provider) exchange(ctx context.Context, client *oauth2.Config, code, verifier string) (answer *oauth2.Token, err error) {
	for _, style := range p.authStyles {
		client.Endpoint.AuthStyle = style
		answer, err = client.Exchange(ctx, code, oauth2.VerifierOption(verifier))
		refusal, refused := errors.AsType[*oauth2.RetrieveError](err)
		if !refused || refusal.ErrorCode != "invalid_client" && refusal.ErrorCode != "invalid_request" {
			break
		}
	}
	return answer, err //nolint:wrapcheck // classifyTokenError reads it
}

// check refuses an answer that is not the provider's own (RFC 9207 §2.4), and one that says that nobody signed in.
func (p *provider) check(c signInState, back Callback) error {
	switch {
	case c.Issuer != p.issuer, back.Issuer != p.issuer && (back.Issuer != "" || p.sendsIssuer):
		return &RefusedError{Reason: "the answer is another provider's"}
	case back.Error == "server_error", back.Error == "temporarily_unavailable":
		return &ProviderError{Code: back.Error, Err: errors.New("the provider sent the person back")}
	case back.Error != "":
		return &RefusedError{Reason: "the provider did not sign the person in: " + knownCode(back.Error), ByProvider: true}
	case back.Code == "":
		return &RefusedError{Reason: "the answer holds no code"}
	}
	return nil
}

// maxAccountName is server/keys' limit in characters, kept here in bytes.
const maxAccountName = 200

// accountName is issuer#subject. A subject can have 255 characters. A name that is too long, has control characters or
// looks like a hash is replaced by a hash of both.
func accountName(issuer, subject string) string {
	const mark = "sha256:"
	name := issuer + "#" + subject
	if len(name) <= maxAccountName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) &&
		!strings.HasPrefix(subject, mark) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "#" + mark + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(issuer[:min(len(issuer), maxAccountName-len(tail))], "") + tail
}
