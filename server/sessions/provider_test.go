package sessions_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestProviderIsDiscoveredEveryTenMinutesAndKeptWhileThatFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var (
		asked  atomic.Int32
		away   atomic.Bool
		issuer string
	)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"issuer":"` + issuer + `","authorization_endpoint":"` + issuer + `/a","token_endpoint":"` + issuer +
			`/t","jwks_uri":"` + issuer + `/k","id_token_signing_alg_values_supported":["RS256"]}`))
	}))
	t.Cleanup(provider.Close)
	issuer = provider.URL
	signIn := sessions.NewSignIn(sessions.Provider{Issuer: issuer, ClientID: "c", RedirectURL: redirectURL, Timeout: testkit.Patience},
		[]byte(secret), f.peopleIn(f.pool), f.store)
	begun := *f.clock
	for _, step := range []struct {
		after time.Duration
		away  bool
		asked int32 // in all, after three sign-ins
		fails bool
	}{
		{0, true, 3, true}, // an unknown one is asked by each
		{0, false, 4, false},
		{9 * time.Minute, true, 4, false},
		{10 * time.Minute, true, 5, false}, // one of them asks
		{19 * time.Minute, true, 5, false},
		{20 * time.Minute, true, 6, false},
		{2 * time.Hour, true, 7, false},
		{2*time.Hour + 9*time.Minute, false, 7, false},
		{2*time.Hour + 10*time.Minute, false, 8, false},
	} {
		*f.clock = begun.Add(step.after)
		away.Store(step.away)
		for range 3 {
			_, _, err := signIn.Begin(t.Context(), "")
			if _, failed := errors.AsType[*sessions.ProviderError](err); failed != step.fails || err != nil && !failed {
				t.Errorf("after %s: %v", step.after, err)
			}
		}
		check.Equal(t, asked.Load(), step.asked, "after %s: times asked", step.after)
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

// hang makes requests to the provider's endpoint wait until their client leaves or the test ends. The channel receives a value
// once there is such a request.
func hang(t *testing.T, endpoint string) (prepare func(*mockoidc.MockOIDC) error, arrived <-chan struct{}) {
	t.Helper()
	first := make(chan struct{}, 1)
	return func(provider *mockoidc.MockOIDC) error {
		return provider.AddMiddleware(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, endpoint) {
					next.ServeHTTP(w, r)
					return
				}
				select {
				case first <- struct{}{}:
				default:
				}
				select {
				case <-r.Context().Done():
				case <-t.Context().Done():
				}
			})
		})
	}, first
}

func unreachable(t *testing.T, err error) {
	t.Helper()
	if away, ok := errors.AsType[*sessions.ProviderError](err); !ok || away.Code != "unreachable" {
		t.Errorf("got %v, want a ProviderError: unreachable", err)
	}
}

func TestSignInAtASlowProviderEndsWithItsContext(t *testing.T) {
	t.Parallel()
	const discovery = mockoidc.DiscoveryEndpoint
	for _, endpoint := range []string{discovery, mockoidc.TokenEndpoint, mockoidc.JWKSEndpoint} {
		t.Run(endpoint, func(t *testing.T) {
			t.Parallel()
			prepare, arrived := hang(t, endpoint)
			f := newFixture(t, prepare)
			signIn := func(ctx context.Context) error { _, _, err := f.signIn.Begin(ctx, ""); return err }
			if endpoint != discovery {
				cookie, back := f.returned(t)
				signIn = func(ctx context.Context) error { _, err := f.signIn.Complete(ctx, cookie, back); return err }
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ended := make(chan error, 1)
			go func() { ended <- signIn(ctx) }()
			testkit.Receive(t, arrived, "the request to "+endpoint)
			end()
			unreachable(t, testkit.Receive(t, ended, "the end of the sign-in"))
		})
	}
}

func TestSignInAtASlowProviderEndsAtTheTimeout(t *testing.T) {
	t.Parallel()
	prepare, _ := hang(t, mockoidc.DiscoveryEndpoint)
	f := newFixture(t, prepare)
	registration := f.registration()
	registration.Timeout = time.Nanosecond // the provider never responds, so no limit is too long
	signIn := sessions.NewSignIn(registration, []byte(secret), f.peopleIn(f.pool), f.store)
	ended := make(chan error, 1)
	go func() {
		_, _, err := signIn.Begin(t.Context(), "")
		ended <- err
	}()
	unreachable(t, testkit.Receive(t, ended, "the end of the sign-in"))
}

func TestSignInDoesNotWaitLongForTheEmailAddress(t *testing.T) {
	t.Parallel()
	prepare, _ := hang(t, mockoidc.UserinfoEndpoint)
	f := newFixture(t, prepare)
	registration := f.registration()
	registration.Timeout, registration.UserInfoTimeout = 10*testkit.Patience, time.Nanosecond // the response never comes
	f.signIn = sessions.NewSignIn(registration, []byte(secret), f.peopleIn(f.pool), f.store)
	f.provider.QueueUser(&mockoidc.MockUser{Subject: "ada"})
	cookie, back := f.returned(t)
	ended := make(chan error, 1)
	go func() {
		_, err := f.signIn.Complete(t.Context(), cookie, back)
		ended <- err
	}()
	check.NoError(t, testkit.Receive(t, ended, "the end of the sign-in"))
}
