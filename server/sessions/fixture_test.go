package sessions_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/accounts"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const redirectURL = "http://127.0.0.1/v1/developer/callback"

const secret = "a secret of more than thirty-two bytes"

type fixture struct {
	provider *mockoidc.MockOIDC
	store    *sessions.Store
	signIn   *sessions.SignIn
	clock    *time.Time
	pool     *pgxpool.Pool
}

func newFixture(t *testing.T, prepare ...func(*mockoidc.MockOIDC) error) *fixture {
	t.Helper()
	provider, err := mockoidc.NewServer(nil)
	check.NoError(t, err)
	for _, prepare := range prepare {
		check.NoError(t, prepare(provider))
	}
	check.NoError(t, provider.AddMiddleware(testkit.OneAtATime())) // its handlers share a session without a lock
	listener := testkit.Listen(t)
	check.NoError(t, provider.Start(listener, nil))
	t.Cleanup(func() { _ = provider.Shutdown() })
	now := time.Now()
	f := &fixture{provider: provider, clock: &now, pool: testkit.Database(t)}
	f.store = f.storeOn(f.pool)
	f.signIn = f.pod(secret, f.pool)
	return f
}

// repeatTokens makes the provider give the same tokens for a code as often as they are asked for.
func repeatTokens(provider *mockoidc.MockOIDC) error {
	var granted *httptest.ResponseRecorder
	if err := provider.AddMiddleware(testkit.OneAtATime()); err != nil { // a second request waits for the first one's tokens
		return err
	}
	return provider.AddMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/token") {
				next.ServeHTTP(w, r)
				return
			}
			answer := granted
			if answer == nil {
				answer = httptest.NewRecorder()
				next.ServeHTTP(answer, r)
			}
			if answer.Code == http.StatusOK { // not the refusal of the first way in which a client sends its secret
				granted = answer
			}
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
}

// registration returns this service's registration with the provider, which has [testkit.Patience] for each response.
func (f *fixture) registration() sessions.Provider {
	return sessions.Provider{
		Issuer: f.provider.Issuer(), ClientID: f.provider.ClientID, ClientSecret: f.provider.ClientSecret, RedirectURL: redirectURL,
		Timeout: testkit.Patience, UserInfoTimeout: testkit.Patience,
	}
}

func (f *fixture) pod(secret string, pool *pgxpool.Pool) *sessions.SignIn {
	return sessions.NewSignIn(f.registration(), []byte(secret), f.peopleIn(pool), f.storeOn(pool))
}

func (f *fixture) storeOn(pool *pgxpool.Pool) *sessions.Store {
	return sessions.NewStore(pool, f.config(secret))
}

func (f *fixture) config(secret string) sessions.Config {
	return sessions.Config{
		Secret: []byte(secret), Issuer: f.provider.Issuer(), Idle: time.Hour, Lifetime: 8 * time.Hour,
		Now: func() time.Time { return *f.clock },
	}
}

func (f *fixture) peopleIn(pool *pgxpool.Pool) *accounts.Store {
	return accounts.NewStore(pool, true, func() time.Time { return *f.clock })
}

// someone returns what a new person's session is made of. The person has an account.
func (f *fixture) someone(t *testing.T) sessions.Session {
	t.Helper()
	person := accounts.Person{Issuer: f.provider.Issuer(), Subject: uuid.NewString()}
	var account uuid.UUID
	check.NoError(t, pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) (err error) {
		account, err = f.peopleIn(f.pool).CreatePersonal(t.Context(), tx, person)
		return err
	}))
	return sessions.Session{Person: person, AccountID: account}
}

func (f *fixture) count(t *testing.T, table string) (n int) {
	t.Helper()
	check.NoError(t, f.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func (f *fixture) returned(t *testing.T) (cookie string, back sessions.Callback) {
	t.Helper()
	address, cookie, err := f.signIn.Begin(t.Context(), "")
	check.NoError(t, err)
	return cookie, f.atProvider(t, address)
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

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if _, ok := errors.AsType[*sessions.RefusedError](err); !ok {
		t.Errorf("%s: got %v, want a RefusedError", what, err)
	}
}
