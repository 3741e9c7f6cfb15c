package sessions

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// userInfoTimeout bounds the request for what is for display only, and therefore is done without when it fails.
const userInfoTimeout = 2 * time.Second

// maxEmail is RFC 5321's limit in bytes (erratum 1690).
const maxEmail = 254

// identity is a person as the provider knows them: subject is unique at its issuer, and never assigned again.
type identity struct{ issuer, subject, email string }

// exchangeCode exchanges the code for an ID token and verifies it.
func (s *SignIn) exchangeCode(ctx context.Context, client *oauth2.Config, provider *provider, c signInState, code string) (identity, error) {
	answer, err := provider.exchange(oidc.ClientContext(ctx, s.http), client, code, c.Verifier)
	if err != nil {
		return identity{}, classifyTokenError(err)
	}
	raw, _ := answer.Extra("id_token").(string)
	if raw == "" {
		return identity{}, &ProviderError{Code: "no id_token", Err: errors.New("the token endpoint gave no ID token")}
	}
	token, claims, err := s.verify(ctx, provider, c, raw)
	if err != nil {
		return identity{}, err
	}
	if claims.Email == "" {
		claims = s.userInfo(ctx, provider, answer, token.Subject)
	}
	// Not the token's issuer: go-oidc takes one provider's by two names, and an identity must have one.
	return identity{issuer: provider.issuer, subject: token.Subject, email: claims.verifiedEmail()}, nil
}

// verify does what OpenID Connect Core §3.1.3.7 asks for: signature, issuer, audience and expiry are go-oidc's work.
func (s *SignIn) verify(ctx context.Context, provider *provider, c signInState, raw string) (*oidc.IDToken, claims, error) {
	var read claims
	keys := &keySetWithError{KeySet: provider.keys}
	token, err := oidc.NewVerifier(provider.issuer, keys, &oidc.Config{
		ClientID: s.provider.ClientID, Now: s.store.now, SupportedSigningAlgs: provider.algorithms,
	}).Verify(ctx, raw)
	if err != nil {
		return nil, read, keys.classifyVerifyError(err)
	}
	if err := token.Claims(&read); err != nil {
		return nil, read, &RefusedError{Reason: "the ID token's claims cannot be read"}
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(c.Nonce)) != 1:
		return nil, read, &RefusedError{Reason: "the ID token's nonce is not ours"}
	case !isSubject(token.Subject):
		return nil, read, &RefusedError{Reason: "the ID token names nobody, or not as it must"}
	case read.AuthorizedParty != "" && read.AuthorizedParty != s.provider.ClientID, read.AuthorizedParty == "" && len(token.Audience) > 1:
		return nil, read, &RefusedError{Reason: "the ID token was issued to another service"}
	}
	return token, read, nil
}

// isSubject: 1 to 255 ASCII characters (OpenID Connect Core §2). Others could not be told apart with certainty: text that
// is not UTF-8 is replaced when it is read.
func isSubject(subject string) bool {
	isOdd := func(r rune) bool { return r < ' ' || r > '~' }
	return subject != "" && len(subject) <= 255 && !strings.ContainsFunc(subject, isOdd)
}

// claims are what is read of an ID token, or of the provider's UserInfo, beside what go-oidc reads.
type claims struct {
	AuthorizedParty string `json:"azp"`
	Email           string `json:"email"`
	// Verified is a boolean; some providers write it as text.
	Verified any `json:"email_verified"`
}

// verifiedEmail is the address, if the provider vouches for it and it can be shown.
func (c claims) verifiedEmail() string {
	vouched, _ := c.Verified.(bool)
	if !vouched && c.Verified != "true" || len(c.Email) > maxEmail || !utf8.ValidString(c.Email) ||
		strings.ContainsFunc(c.Email, unicode.IsControl) {
		return ""
	}
	return c.Email
}

// userInfo asks for the e-mail address where the ID token has none: a provider need not put it there (OpenID Connect
// Core §5.4). An answer about somebody else counts for nothing (§5.3.2).
func (s *SignIn) userInfo(ctx context.Context, provider *provider, answer *oauth2.Token, subject string) claims {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, s.http), userInfoTimeout)
	defer cancel()
	var read claims
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(answer))
	if err != nil || info.Subject != subject || info.Claims(&read) != nil {
		return claims{}
	}
	return read
}

// keySetWithError keeps why a signature could not be verified, which go-oidc's verifier passes on as text only.
type keySetWithError struct {
	oidc.KeySet

	err error
}

// VerifySignature implements oidc.KeySet.
func (k *keySetWithError) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.err = err
	return payload, err //nolint:wrapcheck // it is go-oidc that reads it
}

// classifyVerifyError separates keys that cannot be fetched from an invalid token. A remote key set wraps another
// error only in the former case.
func (k *keySetWithError) classifyVerifyError(err error) error {
	if cause := errors.Unwrap(k.err); cause != nil {
		return &ProviderError{Code: codeUnreachable, Err: cause}
	}
	if k.err != nil {
		return &RefusedError{Reason: "the ID token's signature does not hold"}
	}
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return &RefusedError{Reason: "the ID token has expired"}
	}
	return &RefusedError{Reason: "the ID token is malformed or its claims do not hold"}
}

// classifyTokenError: only a code that is not taken (RFC 6749 §5.2, invalid_grant) is the person's failure.
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

// knownCode is an error code that is safe to log: one of RFC 6749 or OpenID Connect, or that it is none of them.
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
