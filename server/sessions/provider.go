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
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"examprep.dev/server/accounts"
)

const (
	// defaultTimeout is the default of Provider.Timeout.
	defaultTimeout = 5 * time.Second
	// defaultUserInfoTimeout is the default of Provider.UserInfoTimeout.
	defaultUserInfoTimeout = 2 * time.Second
	// maxBody limits the bytes that are read of each response.
	maxBody = 1 << 20
	// discoveryLife is how long the provider's configuration and keys are used before they are read again.
	discoveryLife = 10 * time.Minute

	codeUnreachable = "unreachable"
)

// provider is a discovered provider with this service's registration.
type provider struct {
	*oidc.Provider
	issuer      string
	keys        oidc.KeySet
	client      oauth2.Config
	tokenConfig oidc.Config
	authStyles  []oauth2.AuthStyle
	// userInfoTimeout is Provider.UserInfoTimeout.
	userInfoTimeout time.Duration
	// sendsIssuer reports whether each of its callbacks names it (RFC 9207).
	sendsIssuer bool
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
	var configuration struct {
		Keys        string   `json:"jwks_uri"`
		Algorithms  []string `json:"id_token_signing_alg_values_supported"`
		Methods     []string `json:"token_endpoint_auth_methods_supported"`
		SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"`
	}
	found, err := oidc.NewProvider(ctx, registered.Issuer)
	if err == nil {
		err = found.Claims(&configuration)
	}
	if err != nil {
		return nil, fmt.Errorf("read the provider's configuration: %w", err)
	}
	endpoint, withTLS := found.Endpoint(), strings.HasPrefix(registered.Issuer, "https:")
	addresses := []string{endpoint.AuthURL, endpoint.TokenURL, configuration.Keys}
	if userInfo := found.UserInfoEndpoint(); userInfo != "" { // it gets the access token
		addresses = append(addresses, userInfo)
	}
	for _, address := range addresses {
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
		authStyles:      authStyles(registered.ClientSecret, configuration.Methods),
		userInfoTimeout: registered.UserInfoTimeout,
		sendsIssuer:     configuration.SendsIssuer,
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

// identify exchanges a callback's code for an ID token and returns a session without an account.
func (p *provider) identify(ctx context.Context, begun signInState, back Callback) (Session, error) {
	if err := p.checkCallback(begun, back); err != nil {
		return Session{}, err
	}
	tokens, err := p.exchange(ctx, back.Code, begun.Verifier)
	if err != nil {
		return Session{}, classifyTokenError(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return Session{}, &ProviderError{Code: "no id_token", Err: errors.New("the token endpoint returned no ID token")}
	}
	person, err := p.verify(ctx, raw, begun.Nonce)
	if err != nil {
		return Session{}, err
	}
	if person.verifiedEmail() == "" { // then the UserInfo response can have it (OpenID Connect Core §5.4)
		ctx, cancel := context.WithTimeout(ctx, p.userInfoTimeout)
		defer cancel()
		info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
		if err == nil && info.Subject == person.Subject { // §5.3.2
			person.Email, person.Verified = info.Email, info.EmailVerified
		}
	}
	// The token's issuer can have two names (go-oidc accepts both of Google's). An identity must have one.
	return Session{Person: accounts.Person{Issuer: p.issuer, Subject: person.Subject, Email: person.verifiedEmail()}}, nil
}

// checkCallback refuses another provider's callback (RFC 9207 §2.4), and one that reports an error.
func (p *provider) checkCallback(begun signInState, back Callback) error {
	switch {
	case begun.Issuer != p.issuer, back.Issuer != p.issuer && (back.Issuer != "" || p.sendsIssuer):
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

// exchange redeems a code. It tries the second way to authenticate only if the provider rejected the first: any other
// failure may have used up the code. (x/oauth2's own detection tries again after every failure.)
func (p *provider) exchange(ctx context.Context, code, verifier string) (tokens *oauth2.Token, err error) {
	client := p.client
	for _, style := range p.authStyles {
		client.Endpoint.AuthStyle = style
		tokens, err = client.Exchange(ctx, code, oauth2.VerifierOption(verifier))
		rejected, ok := errors.AsType[*oauth2.RetrieveError](err)
		if !ok || rejected.ErrorCode != "invalid_client" && rejected.ErrorCode != "invalid_request" {
			break
		}
	}
	return tokens, err
}

// classifyTokenError: only a code that is not accepted (RFC 6749 §5.2, invalid_grant) is the person's failure.
func classifyTokenError(err error) error {
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !answered:
		return &ProviderError{Code: codeUnreachable, Err: err}
	case answer.ErrorCode == "invalid_grant" && answer.Response.StatusCode < http.StatusInternalServerError:
		return &RefusedError{Reason: "the provider does not take the code"}
	case answer.ErrorCode == "":
		return &ProviderError{Code: http.StatusText(answer.Response.StatusCode), Err: err}
	default:
		return &ProviderError{Code: knownCode(answer.ErrorCode), Err: err}
	}
}

// claims are an ID token's claims.
type claims struct {
	Subject         string `json:"sub"`
	AuthorizedParty string `json:"azp"`
	Email           string `json:"email"`
	// Verified is a boolean; some providers write it as text.
	Verified any `json:"email_verified"`
}

// verifiedEmail returns the address if the provider has verified it and it can be shown.
func (c claims) verifiedEmail() string {
	verified, _ := c.Verified.(bool)
	if !verified && c.Verified != "true" || len(c.Email) > accounts.MaxEmail || strings.ContainsFunc(c.Email, unicode.IsControl) {
		return ""
	}
	return c.Email
}

// keySetWithError keeps why a signature could not be verified: go-oidc's verifier returns only the text of it.
type keySetWithError struct {
	oidc.KeySet
	err error
}

// VerifySignature implements oidc.KeySet.
func (k *keySetWithError) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	payload, k.err = k.KeySet.VerifySignature(ctx, jwt)
	return payload, k.err
}

// verify checks an ID token (OpenID Connect Core §3.1.3.7). go-oidc checks signature, issuer, audience and expiry.
func (p *provider) verify(ctx context.Context, raw, nonce string) (found claims, err error) {
	keys := &keySetWithError{KeySet: p.keys}
	token, err := oidc.NewVerifier(p.issuer, keys, &p.tokenConfig).Verify(ctx, raw)
	if err == nil {
		err = token.Claims(&found)
	}
	// A remote key set wraps another error only if it could not read the keys.
	if cause := errors.Unwrap(keys.err); cause != nil {
		return found, &ProviderError{Code: codeUnreachable, Err: cause}
	}
	_, expired := errors.AsType[*oidc.TokenExpiredError](err)
	party, isOdd := found.AuthorizedParty, func(r rune) bool { return r < ' ' || r > '~' }
	var reason string
	switch {
	case keys.err != nil:
		reason = "the ID token's signature does not hold"
	case expired:
		reason = "the ID token has expired"
	case err != nil:
		reason = "the ID token is malformed or its claims do not hold"
	case token.Nonce != nonce:
		reason = "the ID token's nonce is not ours"
	case token.Subject == "", len(token.Subject) > 255, strings.ContainsFunc(token.Subject, isOdd): // §2: ASCII
		reason = "the ID token names nobody, or not as it must"
	case party != "" && party != p.client.ClientID, party == "" && len(token.Audience) > 1:
		reason = "the ID token was issued to another service"
	default:
		return found, nil
	}
	return found, &RefusedError{Reason: reason}
}

// knownCode returns a code that is safe to log: an error code of RFC 6749 or OpenID Connect.
func knownCode(code string) string {
	if slices.Contains([]string{
		"access_denied", "account_selection_required", "consent_required", "interaction_required", "invalid_client",
		"invalid_grant", "invalid_request", "invalid_scope", "login_required", "server_error", "temporarily_unavailable",
		"unauthorized_client", "unsupported_grant_type", "unsupported_response_type",
	}, code) {
		return code
	}
	return "an unknown error code"
}
