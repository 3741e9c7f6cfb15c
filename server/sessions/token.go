package sessions

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// userInfoTimeout limits the request for the e-mail address, which is for display only.
	userInfoTimeout = 2 * time.Second
	// maxEmail is RFC 5321's limit in bytes (erratum 1690).
	maxEmail = 254
)

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
	// go-oidc accepts two names of Google as the token's issuer. An identity must have one.
	session := Session{Issuer: p.issuer, Subject: person.Subject, Email: person.verifiedEmail()}
	if person.Email == "" {
		session.Email = p.userInfo(ctx, tokens, person.Subject).verifiedEmail()
	}
	return session, nil
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

// claims are claims of an ID token or a UserInfo response.
type claims struct {
	Subject         string `json:"sub"`
	AuthorizedParty string `json:"azp"`
	Email           string `json:"email"`
	// Verified is a boolean; some providers write it as text.
	Verified any `json:"email_verified"`
}

// verifiedEmail returns the address if the provider has verified it and it can be shown.
func (c claims) verifiedEmail() string {
	if c.Verified != true && c.Verified != "true" || len(c.Email) > maxEmail || strings.ContainsFunc(c.Email, unicode.IsControl) {
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

// userInfo returns the claims of the UserInfo response (OpenID Connect Core §5.4), for an ID token without an e-mail
// address. They are empty if the request fails, or if the response is about another subject (§5.3.2).
func (p *provider) userInfo(ctx context.Context, tokens *oauth2.Token, subject string) (found claims) {
	ctx, cancel := context.WithTimeout(ctx, userInfoTimeout)
	defer cancel()
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil || info.Subject != subject || info.Claims(&found) != nil {
		return claims{}
	}
	return found
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
