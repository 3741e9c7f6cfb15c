package sessions_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const redirectURL = "http://127.0.0.1/v1/developer/callback"

type accounts struct{ pool *pgxpool.Pool }

func (a accounts) EnsureAccount(ctx context.Context, name string) (uuid.UUID, error) {
	var id uuid.UUID
	err := a.pool.QueryRow(ctx, `INSERT INTO accounts (id, name) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id`, uuid.New(), name).Scan(&id)
	return id, err
}

type fixture struct {
	provider *mockoidc.MockOIDC
	store    *sessions.Store
	signIn   *sessions.SignIn
	clock    *time.Time
	pool     *pgxpool.Pool
}

func (f *fixture) pod(secret string, pool *pgxpool.Pool) *sessions.SignIn {
	return sessions.NewSignIn(sessions.Provider{
		Issuer: f.provider.Issuer(), ClientID: f.provider.ClientID, ClientSecret: f.provider.ClientSecret, RedirectURL: redirectURL,
	}, []byte(secret), accounts{pool}, f.storeOn(pool))
}

func (f *fixture) storeOn(pool *pgxpool.Pool) *sessions.Store {
	return sessions.NewStore(pool, []byte(secret), time.Hour, 8*time.Hour, func() time.Time { return *f.clock })
}

func (f *fixture) account(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := accounts{f.pool}.EnsureAccount(t.Context(), uuid.NewString())
	check.NoError(t, err)
	return id
}

func (f *fixture) count(t *testing.T, table string) (n int) {
	t.Helper()
	check.NoError(t, f.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

const secret = "a secret of more than thirty-two bytes"

func newFixture(t *testing.T, prepare ...func(*mockoidc.MockOIDC) error) *fixture {
	t.Helper()
	provider, err := mockoidc.NewServer(nil)
	check.NoError(t, err)
	for _, prepare := range prepare {
		check.NoError(t, prepare(provider))
	}
	var mu sync.Mutex // the provider's handlers share a session without a lock
	check.NoError(t, provider.AddMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}))
	listener := testkit.Listen(t)
	check.NoError(t, provider.Start(listener, nil))
	t.Cleanup(func() { _ = provider.Shutdown() })
	now := time.Now()
	f := &fixture{provider: provider, clock: &now, pool: testkit.Database(t)}
	f.store = f.storeOn(f.pool)
	f.signIn = f.pod(secret, f.pool)
	return f
}

// atProvider goes to the provider as a browser would and returns the callback.
func (f *fixture) atProvider(t *testing.T, address string) sessions.Callback {
	t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	check.NoError(t, err)
	response, err := browser.Do(request)
	check.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	location, err := response.Location()
	check.NoError(t, err)
	back := location.Query()
	return sessions.Callback{State: back.Get("state"), Code: back.Get("code"), Issuer: back.Get("iss"), Error: back.Get("error")}
}

func TestASignedInPersonKeepsOneAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var first sessions.Session
	for range 2 {
		f.provider.QueueUser(&mockoidc.MockUser{Subject: "ada", Email: "ada@example.org", EmailVerified: true})
		address, cookie, err := f.signIn.Begin(t.Context())
		check.NoError(t, err)
		if !strings.Contains(address, "code_challenge_method=S256") {
			t.Errorf("no PKCE in %s", address)
		}
		token, err := f.signIn.Complete(t.Context(), cookie, f.atProvider(t, address))
		check.NoError(t, err)
		session, err := f.store.Lookup(t.Context(), token)
		check.NoError(t, err)
		if session.Subject != "ada" || session.Email != "ada@example.org" {
			t.Errorf("session = %+v", session)
		}
		if first.AccountID != uuid.Nil && session.AccountID != first.AccountID {
			t.Errorf("second sign-in got account %s, the first %s", session.AccountID, first.AccountID)
		}
		first = session
	}
}

func TestWhatCannotBeAcceptedIsRefused(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(f *fixture, cookie, state, code *string){
		"forged state":           func(_ *fixture, _, state, _ *string) { *state = "forged" },
		"empty state":            func(_ *fixture, _, state, _ *string) { *state = "" },
		"cookie of nobody":       func(_ *fixture, cookie, _, _ *string) { *cookie = "stolen" },
		"no cookie":              func(_ *fixture, cookie, _, _ *string) { *cookie = "" },
		"code of nobody":         func(_ *fixture, _, _, code *string) { *code = "forged" },
		"token that has run out": func(f *fixture, _, _, _ *string) { *f.clock = f.clock.Add(24 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			cookie, back := f.returned(t)
			tamper(f, &cookie, &back.State, &back.Code)
			_, err := f.signIn.Complete(t.Context(), cookie, back)
			refused(t, name, err)
		})
	}
}

func TestASignInCanBeCompletedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cookie, back := f.returned(t)
	_, err := f.signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
	_, err = f.signIn.Complete(t.Context(), cookie, back)
	// The provider would refuse the code as well: it is the sign-in that must be over.
	if refusal, ok := errors.AsType[*sessions.RefusedError](err); !ok || refusal.Reason != "this sign-in is over or was never begun" {
		t.Fatalf("replay: got %v, want a RefusedError for the sign-in", err)
	}
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, f *fixture, token string, account uuid.UUID){
		"by sign-out": func(t *testing.T, f *fixture, token string, account uuid.UUID) {
			t.Helper()
			check.NoError(t, f.signIn.SignOut(t.Context(), token, sessions.Session{AccountID: account}))
		},
		"by another sign-in of the browser": func(t *testing.T, f *fixture, token string, _ uuid.UUID) {
			t.Helper()
			check.NoError(t, f.store.End(t.Context(), token))
		},
		"by sign-out everywhere": func(t *testing.T, f *fixture, _ string, account uuid.UUID) {
			t.Helper()
			check.NoError(t, f.signIn.SignOutEverywhere(t.Context(), sessions.Session{AccountID: account}))
		},
		"at its absolute time-out": func(_ *testing.T, f *fixture, _ string, _ uuid.UUID) {
			*f.clock = f.clock.Add(8 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			account := f.account(t)
			token, err := f.store.Create(t.Context(), sessions.Session{AccountID: account})
			check.NoError(t, err)
			_, err = f.store.Lookup(t.Context(), token)
			check.NoError(t, err)
			end(t, f, token, account)
			_, err = f.store.Lookup(t.Context(), token)
			if _, ended := errors.AsType[*sessions.NoSessionError](err); !ended {
				t.Errorf("got %v, want a NoSessionError", err)
			}
		})
	}
}

func TestSessionEndsWhenItWasNotUsedForTheIdleTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token, err := f.store.Create(t.Context(), sessions.Session{AccountID: f.account(t)})
	check.NoError(t, err)
	begun := *f.clock
	for _, step := range []struct {
		at   time.Duration
		live bool
	}{
		{59 * time.Minute, true}, // each use begins the idle time again
		{118 * time.Minute, true},
		{177 * time.Minute, true},
		{237 * time.Minute, false},
	} {
		*f.clock = begun.Add(step.at)
		_, err := f.store.Lookup(t.Context(), token)
		if _, ended := errors.AsType[*sessions.NoSessionError](err); ended == step.live || err != nil && !ended {
			t.Errorf("after %s: %v, want live = %v", step.at, err, step.live)
		}
	}
}

func TestLastUseIsWrittenAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	*f.clock = f.clock.Truncate(time.Microsecond)
	token, err := f.store.Create(t.Context(), sessions.Session{AccountID: f.account(t)})
	check.NoError(t, err)
	begun := *f.clock
	for _, step := range []struct{ at, written time.Duration }{
		{0, 0}, {59 * time.Second, 0}, {time.Minute, time.Minute}, {90 * time.Second, time.Minute}, {3 * time.Minute, 3 * time.Minute},
	} {
		*f.clock = begun.Add(step.at)
		_, err := f.store.Lookup(t.Context(), token)
		check.NoError(t, err)
		var written time.Time
		check.NoError(t, f.pool.QueryRow(t.Context(), "SELECT last_used_at FROM sessions").Scan(&written))
		if !written.Equal(begun.Add(step.written)) {
			t.Errorf("after %s: last use is %s after the start, want %s", step.at, written.Sub(begun), step.written)
		}
	}
}

func TestTokenIsNotStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token, err := f.store.Create(t.Context(), sessions.Session{AccountID: f.account(t)})
	check.NoError(t, err)
	var row string
	check.NoError(t, f.pool.QueryRow(t.Context(), "SELECT s::text || encode(s.hash, 'escape') FROM sessions s").Scan(&row))
	if strings.Contains(row, token) {
		t.Errorf("the row holds the token: %s", row)
	}
}

func TestAProviderInTroubleIsNoRefusal(t *testing.T) {
	t.Parallel()
	failing := func(code int) func(f *fixture) {
		return func(f *fixture) {
			for range 2 { // x/oauth2 tries both ways to name the client
				f.provider.QueueError(&mockoidc.ServerError{Code: code, Error: "temporarily_unavailable"})
			}
		}
	}
	for name, fail := range map[string]func(f *fixture){
		"server error":             failing(http.StatusServiceUnavailable),
		"too many":                 failing(http.StatusTooManyRequests),
		"registration not known":   func(f *fixture) { f.provider.ClientID = "another" },
		"provider does not listen": func(f *fixture) { _ = f.provider.Shutdown() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			cookie, back := f.returned(t)
			fail(f)
			_, err := f.signIn.Complete(t.Context(), cookie, back)
			if away, ok := errors.AsType[*sessions.ProviderError](err); !ok || away.Code == "" {
				t.Fatalf("got %v, want a ProviderError", err)
			}
		})
	}
}

func TestALongSubjectGetsAnAccountOfABoundedName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.provider.QueueUser(&mockoidc.MockUser{Subject: strings.Repeat("s", 255)})
	cookie, back := f.returned(t)
	token, err := f.signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
	session, err := f.store.Lookup(t.Context(), token)
	check.NoError(t, err)
	if len(session.Account) > 200 || !strings.HasPrefix(session.Account, f.provider.Issuer()+"#sha256:") {
		t.Errorf("account %q", session.Account)
	}
}

func TestEndedSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account(t)
	create := func() string {
		token, err := f.store.Create(t.Context(), sessions.Session{AccountID: account})
		check.NoError(t, err)
		return token
	}
	check.NoError(t, f.store.End(t.Context(), create()))
	check.Equal(t, f.count(t, "sessions"), 0, "sessions remembered after the sign-out")
	create()
	*f.clock = f.clock.Add(9 * time.Hour)
	create()
	check.Equal(t, f.count(t, "sessions"), 1, "remembered sessions")
}

func TestUsedSignInIsForgottenOnceItHasExpired(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 2 {
		cookie, back := f.returned(t)
		_, err := f.signIn.Complete(t.Context(), cookie, back)
		check.NoError(t, err)
		check.Equal(t, f.count(t, "used_sign_ins"), 1, "remembered sign-ins")
		_, err = f.pool.Exec(t.Context(), "UPDATE used_sign_ins SET expires_at = expires_at - $1::interval", 2*sessions.SignInTimeout)
		check.NoError(t, err)
	}
}
