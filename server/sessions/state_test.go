package sessions_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit/check"
)

func (f *fixture) returned(t *testing.T) (cookie string, back sessions.Callback) {
	t.Helper()
	address, cookie, err := f.signIn.Begin(t.Context())
	check.NoError(t, err)
	return cookie, f.atProvider(t, address)
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if _, ok := errors.AsType[*sessions.RefusedError](err); !ok {
		t.Errorf("%s: got %v, want a RefusedError", what, err)
	}
}

func TestASignInThatIsOnlyBegunTakesUpNoRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cookie, back := f.returned(t)
	stored := func() int {
		return f.count(t, "sessions") + f.count(t, "used_sign_ins") + f.count(t, "account_identities")
	}
	check.Equal(t, stored(), 0, "rows of it in PostgreSQL")
	_, err := f.signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
	check.Equal(t, stored(), 3, "rows of a completed sign-in in PostgreSQL")
}

func TestAnotherPodCompletesWhatOneHasBegunAndNoneDoesTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cookie, back := f.returned(t)
	_, err := f.pod("another secret of at least thirty-two bytes", f.pool).Complete(t.Context(), cookie, back)
	refused(t, "another secret", err)
	_, err = f.pod(secret, f.pool).Complete(t.Context(), cookie, back)
	check.NoError(t, err)
	_, err = f.signIn.Complete(t.Context(), cookie, back)
	refused(t, "a second time", err)
}

func TestTamperedSignInIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cookie, back := f.returned(t)
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	check.NoError(t, err)
	for i := range sealed {
		sealed[i] ^= 1
		_, err := f.signIn.Complete(t.Context(), base64.RawURLEncoding.EncodeToString(sealed), back)
		refused(t, "another byte", err)
		sealed[i] ^= 1
		_, err = f.signIn.Complete(t.Context(), base64.RawURLEncoding.EncodeToString(sealed[:i]), back)
		refused(t, "cut off", err)
	}
	_, err = f.signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
}

func TestASignInMayTakeItsTimeAndNoLonger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	begun := *f.clock
	cookie, back := f.returned(t)
	*f.clock = begun.Add(sessions.SignInTimeout)
	_, err := f.signIn.Complete(t.Context(), cookie, back)
	refused(t, "too late", err)
	*f.clock = begun.Add(sessions.SignInTimeout - time.Minute)
	_, err = f.signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
}

func TestACallbackThatFindsPostgresAwayMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var away atomic.Bool
	config := f.pool.Config()
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, errors.New("no way there")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	check.NoError(t, err)
	t.Cleanup(pool.Close)
	signIn := f.pod(secret, pool)
	cookie, back := f.returned(t)

	away.Store(true)
	pool.Reset()
	if _, err := signIn.Complete(t.Context(), cookie, back); !postgres.Unavailable(err) {
		t.Fatalf("got %v, want Postgres away", err)
	}
	away.Store(false)
	readOnly(t, f.pool, "on")
	pool.Reset()
	if _, err := signIn.Complete(t.Context(), cookie, back); !postgres.Unavailable(err) {
		t.Fatalf("on a standby: got %v, want Postgres away", err)
	}
	readOnly(t, f.pool, "off")
	pool.Reset()
	_, err = signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
}

// readOnly makes the database's later connections those of a standby, or not.
func readOnly(t *testing.T, pool *pgxpool.Pool, value string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+value+`', current_database()); END $$`)
	check.NoError(t, err)
}

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
	signIn := sessions.NewSignIn(sessions.Provider{Issuer: issuer, ClientID: "c", RedirectURL: redirectURL}, []byte(secret),
		accounts{f.pool}, f.store)
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
			_, _, err := signIn.Begin(t.Context())
			if _, failed := errors.AsType[*sessions.ProviderError](err); failed != step.fails || err != nil && !failed {
				t.Errorf("after %s: %v", step.after, err)
			}
		}
		check.Equal(t, asked.Load(), step.asked, "after %s: times asked", step.after)
	}
}
