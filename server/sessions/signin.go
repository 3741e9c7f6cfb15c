package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"examprep.dev/server/accounts"
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
	// Timeout limits each request to the provider: discovery, keys, token endpoint. 0: 5 seconds.
	Timeout time.Duration
	// UserInfoTimeout limits the request for the e-mail address, which is for display only. 0: 2 seconds.
	UserInfoTimeout time.Duration
}

// Accounts are the accounts of persons; *accounts.Store implements it.
type Accounts interface {
	// Enter returns the account that a person works in, in the transaction of the sign-in; none if the person has to choose.
	Enter(ctx context.Context, tx pgx.Tx, person accounts.Person) (uuid.NullUUID, error)
	// Choose notes that a person works in an account from now on. Accept and CreatePersonal make the person a member, and return the
	// account. They are part of the transaction that moves the session.
	Choose(ctx context.Context, tx pgx.Tx, person accounts.Person, account uuid.UUID) error
	Accept(ctx context.Context, tx pgx.Tx, person accounts.Person, invitation uuid.UUID) (uuid.UUID, error)
	CreatePersonal(ctx context.Context, tx pgx.Tx, person accounts.Person) (uuid.UUID, error)
}

// SignIn leads a person through the provider and back, and out again.
type SignIn struct {
	registration Provider
	accounts     Accounts
	store        *Store
	cookies      cookieCipher
	http         *http.Client

	discovery  singleflight.Group
	discovered atomic.Pointer[provider] // nil before the first
	discoverAt atomic.Int64             // when discovered must be read again, in Unix nanoseconds
}

// Callback is what the provider sent back through the browser, or what an attacker made up.
type Callback struct {
	State string
	// Code is exchanged for the tokens; empty if there is an Error.
	Code string
	// Issuer is the provider's issuer URL (RFC 9207); empty if the provider does not send it.
	Issuer string
	// Error is a code of RFC 6749 §4.1.2.1 or OpenID Connect Core §3.1.2.6; empty when the person has signed in.
	Error string
}

// signInState is a sign-in that has begun. The browser keeps it in an encrypted cookie, so it needs no storage.
type signInState struct {
	Issuer   string    `json:"issuer"`
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Ends     time.Time `json:"ends"`
	ReturnTo string    `json:"return_to,omitempty"`
}

// SignedIn is a completed sign-in.
type SignedIn struct {
	Token    string // the new session's
	ReturnTo string // as it was given to Begin
}

const reasonExpired = "this sign-in is over or was never begun"

// NewSignIn returns a sign-in that stores sessions in store. The key of its cookies is derived from secret, which has at
// least 32 bytes. With the same secret any pod completes a sign-in that another has begun.
func NewSignIn(registration Provider, secret []byte, accounts Accounts, store *Store) *SignIn {
	registration.Timeout = cmp.Or(registration.Timeout, defaultTimeout)
	registration.UserInfoTimeout = cmp.Or(registration.UserInfoTimeout, defaultUserInfoTimeout)
	client := &http.Client{
		Timeout: registration.Timeout, Transport: limitBodies{http.DefaultTransport},
		// A redirect could carry a code and the client's secret to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	cookies := newCookieCipher(secret, "examprep sign-in state v1")
	return &SignIn{registration: registration, accounts: accounts, store: store, cookies: cookies, http: client}
}

// Begin returns the provider's address to redirect to, and the value of a short-lived cookie that ties the sign-in to this
// browser. A callback is refused without it. The cookie has returnTo, which the provider does not see: where the browser goes
// after the sign-in. It fails with a *ProviderError.
func (s *SignIn) Begin(ctx context.Context, returnTo string) (address, cookie string, err error) {
	provider, err := s.discover(ctx)
	if err != nil {
		return "", "", err
	}
	begun := signInState{
		Issuer: provider.issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Ends: s.store.now().Add(SignInTimeout), ReturnTo: returnTo,
	}
	address = provider.client.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier))
	value, err := json.Marshal(begun)
	if err != nil {
		return "", "", fmt.Errorf("encode sign-in: %w", err)
	}
	return address, s.cookies.encrypt(value), nil
}

// Complete takes the cookie of Begin and the provider's callback, and starts a session. A sign-in can be completed once. The
// same callback can be tried again if the provider could not be discovered or PostgreSQL could not be written. Errors: see the
// package comment.
func (s *SignIn) Complete(ctx context.Context, cookie string, back Callback) (SignedIn, error) {
	provider, err := s.discover(ctx)
	if err != nil {
		return SignedIn{}, err
	}
	begun, err := s.resume(cookie, back.State)
	if err != nil {
		return SignedIn{}, err
	}
	used, err := s.store.queries.SignInUsed(ctx, hashOf(begun.State))
	if err != nil {
		return SignedIn{}, fmt.Errorf("read sign-in: %w", err)
	}
	if used {
		return SignedIn{}, &RefusedError{Reason: reasonExpired, Over: true}
	}
	session, err := provider.identify(oidc.ClientContext(ctx, s.http), begun, back)
	if err != nil {
		return SignedIn{}, err
	}
	completed := SignedIn{ReturnTo: begun.ReturnTo}
	// Each pod has its own clock, so the mark outlasts the sign-in by far.
	mark := sessionsdb.UseSignInParams{Hash: hashOf(begun.State), ExpiresAt: s.store.now().Add(2 * SignInTimeout)}
	err = s.transact(ctx, audit.SessionBegin, &session, func(ctx context.Context, store *Store, tx pgx.Tx) error {
		first, err := store.queries.UseSignIn(ctx, mark)
		if err != nil {
			return fmt.Errorf("use sign-in: %w", err)
		}
		if first == 0 { // another callback succeeded since
			return &RefusedError{Reason: reasonExpired, Over: true}
		}
		account, err := s.accounts.Enter(ctx, tx, session.Person)
		if err != nil {
			return err
		}
		session.AccountID = account.UUID
		completed.Token, err = store.Create(ctx, session)
		return err
	})
	if err != nil {
		return SignedIn{}, err
	}
	return completed, nil
}

// resume returns the sign-in of a cookie. A wrong state does not consume the sign-in, so a forged callback link cannot
// cancel it.
func (s *SignIn) resume(cookie, state string) (begun signInState, err error) {
	if cookie == "" || state == "" {
		return begun, &RefusedError{Reason: "no sign-in was begun in this browser", Over: true}
	}
	value, ok := s.cookies.decrypt(cookie)
	if !ok || json.Unmarshal(value, &begun) != nil || !s.store.now().Before(begun.Ends) {
		return begun, &RefusedError{Reason: reasonExpired, Over: true}
	}
	if subtle.ConstantTimeCompare([]byte(state), []byte(begun.State)) != 1 {
		return begun, &RefusedError{Reason: "the state is not the one this browser began with"}
	}
	return begun, nil
}

// Choose lets the person of a session work in another account, whose member the person is; otherwise the error is an
// *accounts.NotFoundError. It returns the session as it is then.
func (s *SignIn) Choose(ctx context.Context, token string, session Session, account uuid.UUID) (Session, error) {
	return s.move(ctx, token, session, func(tx pgx.Tx) (uuid.UUID, error) {
		return account, s.accounts.Choose(ctx, tx, session.Person, account)
	})
}

// Accept makes the person of a session a member by an invitation, and moves the session to the account. It returns the errors of the accounts.
func (s *SignIn) Accept(ctx context.Context, token string, session Session, invitation uuid.UUID) (Session, error) {
	return s.move(ctx, token, session, func(tx pgx.Tx) (uuid.UUID, error) { return s.accounts.Accept(ctx, tx, session.Person, invitation) })
}

// CreatePersonal gives the person of a session an account, and moves the session to it. It returns the errors of the accounts.
func (s *SignIn) CreatePersonal(ctx context.Context, token string, session Session) (Session, error) {
	return s.move(ctx, token, session, func(tx pgx.Tx) (uuid.UUID, error) { return s.accounts.CreatePersonal(ctx, tx, session.Person) })
}

// move moves a session to the account that find returns. A failure undoes what find has done, so the call can be repeated.
func (s *SignIn) move(ctx context.Context, token string, session Session, find func(pgx.Tx) (uuid.UUID, error)) (moved Session, err error) {
	err = s.transact(ctx, audit.SessionChoose, &session, func(ctx context.Context, store *Store, tx pgx.Tx) error {
		if session.AccountID, err = find(tx); err != nil {
			return err
		}
		err := store.queries.MoveSession(ctx, sessionsdb.MoveSessionParams{Hash: hashOf(token), AccountID: session.AccountID})
		if err != nil {
			return fmt.Errorf("move session: %w", err)
		}
		moved, err = store.Lookup(ctx, token)
		return err
	})
	return moved, err
}

// SignOut ends the session of a token.
func (s *SignIn) SignOut(ctx context.Context, token string, session Session) error {
	return s.transact(ctx, audit.SessionEnd, &session, func(ctx context.Context, store *Store, _ pgx.Tx) error { return store.End(ctx, token) })
}

// SignOutEverywhere ends all sessions of the session's person.
func (s *SignIn) SignOutEverywhere(ctx context.Context, session Session) error {
	return s.transact(ctx, audit.SessionEndAll, &session, func(ctx context.Context, store *Store, _ pgx.Tx) error {
		return store.queries.DeleteSessionsOf(ctx, sessionsdb.DeleteSessionsOfParams{Issuer: session.Issuer, Subject: session.Subject})
	})
}

// transact runs act, which can set the session's account, and records the action in one transaction. The actor of a sign-in has no
// name before it.
func (s *SignIn) transact(ctx context.Context, action audit.Action, session *Session, act func(context.Context, *Store, pgx.Tx) error) error {
	if actor, known := audit.ActorOf(ctx); known && actor.Name == "" {
		actor.Name = session.Name()
		ctx = audit.WithActor(ctx, actor)
	}
	err := pgx.BeginFunc(ctx, s.store.db, func(tx pgx.Tx) error {
		store := *s.store
		store.queries = sessionsdb.New(tx)
		if err := act(ctx, &store, tx); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{Account: session.AccountID, Action: action})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}
