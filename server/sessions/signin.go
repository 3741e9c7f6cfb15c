package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/sessionsdb"
)

// SignInTimeout is how long a person may take at the provider.
const SignInTimeout = 10 * time.Minute

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

// SignIn leads a person through the provider and back, and out again.
type SignIn struct {
	provider Provider
	secret   []byte
	accounts Accounts
	store    *Store

	http       *http.Client
	discovery  singleflight.Group
	discovered atomic.Pointer[provider]
}

// Callback is what the provider sent back through the browser, or what an attacker made up.
type Callback struct {
	State string
	// Code is exchanged for the tokens; empty beside an Error.
	Code string
	// Issuer is the provider that answers (RFC 9207); empty if it does not say.
	Issuer string
	// Error is a code of RFC 6749 §4.1.2.1 or OpenID Connect Core §3.1.2.6; empty when the person has signed in.
	Error string
}

// NewSignIn returns a sign-in that stores sessions in store. The key of its sealed cookies is derived from secret, which has
// at least 32 bytes. With the same secret any pod completes what another has begun.
func NewSignIn(provider Provider, secret []byte, accounts Accounts, store *Store) *SignIn {
	return &SignIn{provider: provider, secret: secret, accounts: accounts, store: store, http: newClient()}
}

// Begin returns the provider's address to redirect to, and the token of a short-lived cookie that ties the sign-in to this
// browser: without it the provider's answer is worth nothing.
func (s *SignIn) Begin(ctx context.Context) (address, token string, err error) {
	client, _, err := s.client(ctx)
	if err != nil {
		return "", "", err
	}
	c := s.newState()
	if token, err = s.encrypt(c); err != nil {
		return "", "", err
	}
	return client.AuthCodeURL(c.State, oidc.Nonce(c.Nonce), oauth2.S256ChallengeOption(c.Verifier)), token, nil
}

// Complete takes what the provider sent back and returns the token of a new session. A sign-in can be completed once. The
// same callback may be tried again if the provider could not be discovered or PostgreSQL could not be written.
func (s *SignIn) Complete(ctx context.Context, token string, back Callback) (string, error) {
	client, provider, err := s.client(ctx)
	if err != nil {
		return "", err
	}
	c, err := s.decrypt(token, back.State)
	if err != nil {
		return "", err
	}
	if err := s.checkUnused(ctx, c); err != nil {
		return "", err
	}
	if err := provider.check(c, back); err != nil {
		return "", err
	}
	who, err := s.exchangeCode(ctx, client, provider, c, back.Code)
	if err != nil {
		return "", err
	}
	session := Session{Issuer: who.issuer, Subject: who.subject, Email: who.email}
	if session.AccountID, session.Account, err = s.account(ctx, who); err != nil {
		return "", err
	}
	return s.begin(ctx, c, session)
}

// begin marks the sign-in as used, starts the session and records both, in one transaction. One of two callbacks at
// once succeeds. The mark outlasts the sign-in by far, because each pod has its own clock.
func (s *SignIn) begin(ctx context.Context, c signInState, session Session) (token string, err error) {
	mark := sessionsdb.UseSignInParams{Hash: hashOf(c.State), ExpiresAt: s.store.now().Add(2 * SignInTimeout)}
	err = s.transact(ctx, audit.SessionBegin, session, func(queries *sessionsdb.Queries) error {
		first, err := queries.UseSignIn(ctx, mark)
		if err != nil {
			return fmt.Errorf("use sign-in: %w", err)
		}
		if first == 0 {
			return &RefusedError{Reason: reasonExpired}
		}
		token, err = s.store.create(ctx, queries, session)
		return err
	})
	return token, err
}

// SignOut ends the session of a token.
func (s *SignIn) SignOut(ctx context.Context, token string, session Session) error {
	return s.transact(ctx, audit.SessionEnd, session, func(queries *sessionsdb.Queries) error {
		return end(ctx, queries, token)
	})
}

// SignOutEverywhere ends all sessions of the session's account.
func (s *SignIn) SignOutEverywhere(ctx context.Context, session Session) error {
	return s.transact(ctx, audit.SessionEndAll, session, func(queries *sessionsdb.Queries) error {
		if err := queries.DeleteSessionsOfAccount(ctx, session.AccountID); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		return nil
	})
}

// transact runs act and records the action in one transaction. The actor of a sign-in has no name before it.
func (s *SignIn) transact(ctx context.Context, action audit.Action, session Session, act func(*sessionsdb.Queries) error) error {
	if actor, known := audit.ActorOf(ctx); known && actor.Name == "" {
		actor.Name = audit.Person(session.Issuer, session.Subject)
		ctx = audit.WithActor(ctx, actor)
	}
	err := pgx.BeginFunc(ctx, s.store.db, func(tx pgx.Tx) error {
		if err := act(sessionsdb.New(tx)); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{Account: session.AccountID, Action: action})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// account finds the person's account; the first sign-in makes it. Its name cannot be chosen by the person, so no person
// signs in to an account that an administrator made under that name.
func (s *SignIn) account(ctx context.Context, who identity) (uuid.UUID, string, error) {
	queries := s.store.queries
	found, err := queries.AccountOfIdentity(ctx, sessionsdb.AccountOfIdentityParams{
		Issuer: who.issuer, Subject: who.subject,
	})
	if err == nil {
		return found.ID, found.Name, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, "", fmt.Errorf("read identity: %w", err)
	}
	name := accountName(who.issuer, who.subject)
	account, err := s.accounts.EnsureAccount(ctx, name)
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("make account: %w", err)
	}
	account, err = queries.LinkIdentity(ctx, sessionsdb.LinkIdentityParams{
		Issuer: who.issuer, Subject: who.subject, AccountID: account,
	})
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("link identity: %w", err)
	}
	return account, name, nil
}
