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
	db       sessionsdb.DBTX
	queries  *sessionsdb.Queries

	http       *http.Client
	discovery  singleflight.Group
	discovered atomic.Pointer[knownProvider]
	// nextRefresh is when a known provider may be asked again, in Unix nanoseconds.
	nextRefresh atomic.Int64
}

// Callback is what the provider sent back through the browser, or what somebody made up.
type Callback struct {
	State string
	// Code is what the tokens are had for; empty beside an Error.
	Code string
	// Issuer is who says that it answers (RFC 9207); empty where the provider does not say.
	Issuer string
	// Error is a code of RFC 6749 §4.1.2.1 or OpenID Connect Core §3.1.2.6; empty when the person has signed in.
	Error string
}

// NewSignIn returns a sign-in that marks its ceremonies used beside the store's sessions. Secret, of at least 32 bytes, is
// what their keys are derived from: with the same one any pod completes what another has begun.
func NewSignIn(provider Provider, secret []byte, accounts Accounts, store *Store, db sessionsdb.DBTX) *SignIn {
	return &SignIn{
		provider: provider, secret: secret, accounts: accounts, store: store, db: db, queries: sessionsdb.New(db),
		http: newClient(),
	}
}

// Begin returns the provider's address to redirect to, and the token of a short-lived cookie that ties the ceremony to
// this browser: without it the provider's answer is worth nothing.
func (s *SignIn) Begin(ctx context.Context) (address, token string, err error) {
	client, _, err := s.client(ctx)
	if err != nil {
		return "", "", err
	}
	c := s.newCeremony()
	if token, err = s.seal(c); err != nil {
		return "", "", err
	}
	return client.AuthCodeURL(c.State, oidc.Nonce(c.Nonce), oauth2.S256ChallengeOption(c.Verifier)), token, nil
}

// Complete takes what the provider sent back and returns the token of a new session. A ceremony can be completed once.
// All that it takes is asked first: while the provider, Postgres or Redis is away the ceremony stays what it was, and the
// same callback may be tried again.
func (s *SignIn) Complete(ctx context.Context, token string, back Callback) (string, error) {
	client, provider, err := s.client(ctx)
	if err != nil {
		return "", err
	}
	c, err := s.open(token, back.State)
	if err != nil {
		return "", err
	}
	if err := s.queries.CheckWritable(ctx); err != nil {
		return "", fmt.Errorf("reach accounts: %w", err)
	}
	if err := s.use(ctx, c); err != nil {
		return "", err
	}
	if err := provider.check(c, back); err != nil {
		return "", err
	}
	person, err := s.redeem(ctx, client, provider, c, back.Code)
	if err != nil {
		return "", err
	}
	session := Session{Issuer: person.issuer, Subject: person.subject, Email: person.email}
	if session.AccountID, session.Account, err = s.account(ctx, person); err != nil {
		return "", err
	}
	if err := s.record(ctx, audit.SessionBegin, session); err != nil {
		return "", err
	}
	return s.store.Create(ctx, session)
}

// account finds the person's account; the first sign-in makes it. Its name cannot be chosen by the person, so nobody
// signs in to an account that an administrator made under that name.
func (s *SignIn) account(ctx context.Context, who person) (uuid.UUID, string, error) {
	found, err := s.queries.AccountOfIdentity(ctx, sessionsdb.AccountOfIdentityParams{
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
	account, err = s.queries.LinkIdentity(ctx, sessionsdb.LinkIdentityParams{
		Issuer: who.issuer, Subject: who.subject, AccountID: account,
	})
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("link identity: %w", err)
	}
	return account, name, nil
}
