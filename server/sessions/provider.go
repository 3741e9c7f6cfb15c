package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// providerTimeout limits each request to the provider: discovery, keys, token endpoint.
	providerTimeout = 5 * time.Second
	// maxBody limits the bytes that are read of each response.
	maxBody = 1 << 20
	// discoveryLife is how long the provider's configuration and keys are used before they are read again.
	discoveryLife = 10 * time.Minute
)

const codeUnreachable = "unreachable"

// provider is a discovered provider.
type provider struct {
	*oidc.Provider

	issuer      string
	keys        oidc.KeySet
	client      oauth2.Config
	tokenConfig oidc.Config
	authStyles  []oauth2.AuthStyle
	// sendsIssuer reports whether each of its callbacks names it (RFC 9207).
	sendsIssuer bool
}

// newHTTPClient returns the client for the provider. It follows no redirect, which could carry a code and the client's
// secret to another host.
func newHTTPClient() *http.Client {
	return &http.Client{
		Timeout:       providerTimeout,
		Transport:     limitBodies{http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// limitBodies limits the bodies of responses: go-oidc reads them whole.
type limitBodies struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b limitBodies) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	}
	return response, err
}

// discover returns the provider. It reads the configuration at the first call, so an API pod starts without the provider,
// and again every 10 minutes. If that fails, a known provider stays in use for another 10 minutes. Concurrent callers share
// one discovery, which outlives them.
func (s *SignIn) discover(ctx context.Context) (*provider, error) {
	if known := s.discovered.Load(); known != nil && s.store.now().UnixNano() < s.discoverAt.Load() {
		return known, nil
	}
	lasting := oidc.ClientContext(context.WithoutCancel(ctx), s.http)
	done := s.discovery.DoChan("", func() (any, error) {
		found, err := newProvider(lasting, s.registration, s.store.now)
		if err == nil {
			s.discovered.Store(found)
		}
		s.discoverAt.Store(s.store.now().Add(discoveryLife).UnixNano())
		return nil, err
	})
	var err error
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case result := <-done:
		err = result.Err
	}
	if known := s.discovered.Load(); known != nil {
		return known, nil
	}
	return nil, &ProviderError{Code: codeUnreachable, Err: err}
}

// newProvider reads the provider's configuration. ctx has the HTTP client, also for reading its keys later.
func newProvider(ctx context.Context, registered Provider, now func() time.Time) (*provider, error) {
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
	endpoint, withTLS := found.Endpoint(), strings.HasPrefix(registered.Issuer, "https:")
	for _, address := range []string{endpoint.AuthURL, endpoint.TokenURL, configuration.Keys} {
		parsed, err := url.Parse(address)
		if err != nil || parsed.Host == "" || parsed.Scheme != "https" && (parsed.Scheme != "http" || withTLS) {
			return nil, errors.New("the provider's configuration lacks an endpoint, or has one without TLS")
		}
	}
	// Never none, and never a shared secret: a public key must not be used as one.
	asymmetric := []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
	}
	isOther := func(algorithm string) bool { return !slices.Contains(asymmetric, algorithm) }
	return &provider{
		Provider: found, issuer: registered.Issuer, keys: oidc.NewRemoteKeySet(ctx, configuration.Keys),
		client: oauth2.Config{
			ClientID: registered.ClientID, ClientSecret: registered.ClientSecret, RedirectURL: registered.RedirectURL,
			Endpoint: endpoint, Scopes: []string{oidc.ScopeOpenID, "email"},
		},
		tokenConfig: oidc.Config{
			ClientID: registered.ClientID, Now: now, SupportedSigningAlgs: slices.DeleteFunc(configuration.Algorithms, isOther),
		},
		authStyles:  authStyles(registered.ClientSecret, configuration.Methods),
		sendsIssuer: configuration.SendsIssuer,
	}, nil
}

// authStyles returns the ways to try at the token endpoint, the likelier first. A provider that lists no method supports
// Basic (OpenID Connect Discovery §3). If it lists both, the registration may allow only one.
func authStyles(secret string, methods []string) (styles []oauth2.AuthStyle) {
	posts := secret == "" || slices.Contains(methods, "client_secret_post")
	if !posts || secret != "" && slices.Contains(methods, "client_secret_basic") {
		styles = append(styles, oauth2.AuthStyleInHeader)
	}
	if posts {
		styles = append(styles, oauth2.AuthStyleInParams)
	}
	return styles
}
