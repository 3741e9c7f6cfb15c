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
	accounts Accounts
	store    *Store
	db       sessionsdb.DBTX
	queries  *sessionsdb.Queries

	http       *http.Client
	discovery  singleflight.Group
	discovered atomic.Pointer[knownProvider]
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

// NewSignIn returns a sign-in that keeps its unfinished ceremonies beside the store's sessions.
func NewSignIn(provider Provider, accounts Accounts, store *Store, db sessionsdb.DBTX) *SignIn {
	return &SignIn{
		provider: provider, accounts: accounts, store: store, db: db, queries: sessionsdb.New(db),
		http: newClient(),
	}
}

// ceremony is what must come back unchanged from the provider, and which provider it was: another's answer is none.
type ceremony struct {
	Issuer   string `json:"issuer"`
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
	c := ceremony{Issuer: s.provider.Issuer, State: newToken(), Nonce: newToken(), Verifier: oauth2.GenerateVerifier()}
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
// The provider is discovered first: while it is away the ceremony stays what it was, and the same callback may be tried
// again.
func (s *SignIn) Complete(ctx context.Context, token string, back Callback) (string, error) {
	client, provider, err := s.client(ctx)
	if err != nil {
		return "", err
	}
	c, err := s.take(ctx, token, back.State)
	if err != nil {
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

// take removes the ceremony that a cookie's token stands for and returns it. One whose state is not the one that came
// back stays: a link to the callback that somebody made up must not end a sign-in that is under way.
func (s *SignIn) take(ctx context.Context, token, state string) (ceremony, error) {
	if token == "" || state == "" {
		return ceremony{}, &RefusedError{Reason: "no sign-in was begun in this browser"}
	}
	c, err := s.ceremony(s.store.redis.Get(ctx, s.name(token)))
	if err != nil {
		return ceremony{}, err
	}
	if subtle.ConstantTimeCompare([]byte(state), []byte(c.State)) != 1 {
		return ceremony{}, &RefusedError{Reason: "the state is not the one this browser began with"}
	}
	return s.ceremony(s.store.redis.GetDel(ctx, s.name(token))) // of two callbacks at once one gets it
}

func (*SignIn) ceremony(read *redis.StringCmd) (c ceremony, err error) {
	value, err := read.Bytes()
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

func (s *SignIn) name(token string) string { return s.store.prefix + "sign-in:" + hashed(token) }
