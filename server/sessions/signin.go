package sessions

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"examprep.dev/server/postgres/sessionsdb"
)

// SignInTimeout is how long a person may take at the provider.
const SignInTimeout = 10 * time.Minute

// providerTimeout bounds each call to the provider: discovery, keys, token endpoint.
const providerTimeout = 10 * time.Second

// Provider names the OpenID Connect provider and this service's registration with it.
type Provider struct {
	// Issuer is the provider's issuer URL; its configuration is discovered from there.
	Issuer       string
	ClientID     string
	ClientSecret string
	// RedirectURL is this service's callback, as it is registered with the provider.
	RedirectURL string
}

// Accounts makes or finds the account of a person; server/keys owns accounts.
type Accounts interface {
	EnsureAccount(ctx context.Context, name string) (uuid.UUID, error)
}

// SignIn leads a person through the provider and back.
type SignIn struct {
	provider Provider
	accounts Accounts
	store    *Store
	queries  *sessionsdb.Queries

	http       *http.Client
	discovery  singleflight.Group
	discovered atomic.Pointer[knownProvider]
}

// NewSignIn returns a sign-in that keeps its unfinished ceremonies beside the store's sessions.
func NewSignIn(provider Provider, accounts Accounts, store *Store, db sessionsdb.DBTX) *SignIn {
	return &SignIn{
		provider: provider, accounts: accounts, store: store, queries: sessionsdb.New(db),
		http: &http.Client{Timeout: providerTimeout},
	}
}

// ceremony is what must come back unchanged from the provider.
type ceremony struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin returns the provider's address to redirect to, and the token of a short-lived cookie that ties the ceremony to
// this browser: without it the provider's answer is worth nothing.
func (s *SignIn) Begin(ctx context.Context) (address, token string, err error) {
	client, _, err := s.client(ctx)
	if err != nil {
		return "", "", err
	}
	c := ceremony{State: newToken(), Nonce: newToken(), Verifier: oauth2.GenerateVerifier()}
	value, err := json.Marshal(c)
	if err != nil {
		return "", "", fmt.Errorf("encode sign-in: %w", err)
	}
	token = newToken()
	if err := s.store.redis.Set(ctx, s.name(token), value, SignInTimeout).Err(); err != nil {
		return "", "", &UnavailableError{"store sign-in", err}
	}
	return client.AuthCodeURL(c.State, oidc.Nonce(c.Nonce), oauth2.S256ChallengeOption(c.Verifier)), token, nil
}

// Complete takes what the provider sent back and returns the token of a new session. A ceremony can be completed once.
func (s *SignIn) Complete(ctx context.Context, token, state, code string) (string, error) {
	c, err := s.take(ctx, token)
	if err != nil {
		return "", err
	}
	if state == "" || subtle.ConstantTimeCompare([]byte(state), []byte(c.State)) != 1 {
		return "", &RefusedError{Reason: "the state is not the one this browser began with"}
	}
	identity, email, err := s.redeem(ctx, c, code)
	if err != nil {
		return "", err
	}
	session := Session{Issuer: identity.Issuer, Subject: identity.Subject, Email: email}
	if session.AccountID, session.Account, err = s.account(ctx, identity); err != nil {
		return "", err
	}
	return s.store.Create(ctx, session)
}

// take reads and removes the ceremony that a cookie's token stands for.
func (s *SignIn) take(ctx context.Context, token string) (ceremony, error) {
	var c ceremony
	if token == "" {
		return c, &RefusedError{Reason: "no sign-in was begun in this browser"}
	}
	value, err := s.store.redis.GetDel(ctx, s.name(token)).Bytes()
	if errors.Is(err, redis.Nil) {
		return c, &RefusedError{Reason: "this sign-in is over or was never begun"}
	}
	if err != nil {
		return c, &UnavailableError{"read sign-in", err}
	}
	if err := json.Unmarshal(value, &c); err != nil {
		return c, fmt.Errorf("decode sign-in: %w", err)
	}
	return c, nil
}

// redeem exchanges the code and verifies the ID token: signature, issuer, audience, expiry (go-oidc) and nonce.
func (s *SignIn) redeem(ctx context.Context, c ceremony, code string) (*oidc.IDToken, string, error) {
	client, provider, err := s.client(ctx)
	if err != nil {
		return nil, "", err
	}
	answer, err := client.Exchange(oidc.ClientContext(ctx, s.http), code, oauth2.VerifierOption(c.Verifier))
	if err != nil {
		return nil, "", ofTokenEndpoint(err)
	}
	raw, _ := answer.Extra("id_token").(string)
	keys := &watchedKeys{KeySet: provider.keys}
	token, err := oidc.NewVerifier(provider.issuer, keys, &oidc.Config{
		ClientID: s.provider.ClientID, Now: s.store.now, SupportedSigningAlgs: provider.algorithms,
	}).Verify(ctx, raw)
	if err != nil {
		return nil, "", keys.explain(err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(c.Nonce)) != 1 {
		return nil, "", &RefusedError{Reason: "the ID token's nonce is not ours"}
	}
	var claims struct {
		Email string `json:"email"`
	}
	if err := token.Claims(&claims); err != nil {
		return nil, "", &RefusedError{Reason: "the ID token's claims cannot be read"}
	}
	return token, claims.Email, nil
}

// account finds the person's account; the first sign-in makes it. Its name cannot be chosen by the person, so nobody
// signs in to an account that an administrator made under that name.
func (s *SignIn) account(ctx context.Context, identity *oidc.IDToken) (uuid.UUID, string, error) {
	found, err := s.queries.AccountOfIdentity(ctx, sessionsdb.AccountOfIdentityParams{
		Issuer: identity.Issuer, Subject: identity.Subject,
	})
	if err == nil {
		return found.ID, found.Name, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, "", fmt.Errorf("read identity: %w", err)
	}
	name := accountName(identity.Issuer, identity.Subject)
	account, err := s.accounts.EnsureAccount(ctx, name)
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("make account: %w", err)
	}
	account, err = s.queries.LinkIdentity(ctx, sessionsdb.LinkIdentityParams{
		Issuer: identity.Issuer, Subject: identity.Subject, AccountID: account,
	})
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("link identity: %w", err)
	}
	return account, name, nil
}

// client discovers the provider once, however many sign in at the same time; while it is away each sign-in tries anew.
func (s *SignIn) client(ctx context.Context) (*oauth2.Config, *knownProvider, error) {
	provider := s.discovered.Load()
	if provider == nil {
		found, err, _ := s.discovery.Do("", func() (any, error) {
			// The provider's key set refreshes itself long after this request: it must not inherit its end.
			return discover(oidc.ClientContext(context.WithoutCancel(ctx), s.http), s.provider.Issuer)
		})
		if err != nil {
			return nil, nil, &ProviderError{Code: codeUnreachable, Err: err}
		}
		provider, _ = found.(*knownProvider)
		s.discovered.Store(provider)
	}
	return &oauth2.Config{
		ClientID: s.provider.ClientID, ClientSecret: s.provider.ClientSecret, RedirectURL: s.provider.RedirectURL,
		Endpoint: provider.endpoint, Scopes: []string{oidc.ScopeOpenID, "email"},
	}, provider, nil
}

func (s *SignIn) name(token string) string { return s.store.prefix + "sign-in:" + hashed(token) }
