package sessions_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestASignedInPersonKeepsOneAccount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var first sessions.Session
	for range 2 {
		f.provider.QueueUser(&mockoidc.MockUser{Subject: "ada", Email: "ada@example.org", EmailVerified: true})
		address, cookie, err := f.signIn.Begin(t.Context(), "/console/keys")
		check.NoError(t, err)
		if !strings.Contains(address, "code_challenge_method=S256") {
			t.Errorf("no PKCE in %s", address)
		}
		if strings.Contains(address, "console") {
			t.Errorf("the provider gets the address to return to: %s", address)
		}
		completed, err := f.signIn.Complete(t.Context(), cookie, f.atProvider(t, address))
		check.NoError(t, err)
		check.Equal(t, completed.ReturnTo, "/console/keys", "where the sign-in leads")
		session, err := f.store.Lookup(t.Context(), completed.Token)
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

func TestALongSubjectGetsAnAccountOfABoundedName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.provider.QueueUser(&mockoidc.MockUser{Subject: strings.Repeat("s", 255)})
	cookie, back := f.returned(t)
	completed, err := f.signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
	session, err := f.store.Lookup(t.Context(), completed.Token)
	check.NoError(t, err)
	if len(session.Account) > 200 || !strings.HasPrefix(session.Account, f.provider.Issuer()+"#sha256:") {
		t.Errorf("account %q", session.Account)
	}
}

// TestASubjectThatEndsWithABlankIsAPersonOfItsOwn: the name of an account has no blank at its end.
func TestASubjectThatEndsWithABlankIsAPersonOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.provider.QueueUser(&mockoidc.MockUser{Subject: "ada "})
	cookie, back := f.returned(t)
	completed, err := f.signIn.Complete(t.Context(), cookie, back)
	check.NoError(t, err)
	session, err := f.store.Lookup(t.Context(), completed.Token)
	check.NoError(t, err)
	if !strings.HasPrefix(session.Account, f.provider.Issuer()+"#sha256:") {
		t.Errorf("account %q", session.Account)
	}
}

func TestASignInThatIsOnlyBegunTakesUpNoRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cookie, back := f.returned(t)
	stored := func() int {
		return f.count(t, "sessions") + f.count(t, "used_sign_ins") + f.count(t, "account_members")
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

// TestOfTwoCallbacksAtOnceOneSucceeds holds both callbacks until neither sees that the other used the sign-in. The provider gives its
// tokens to both, so only the mark in the database decides.
func TestOfTwoCallbacksAtOnceOneSucceeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, repeatTokens)
	cookie, back := f.returned(t)
	holder := testkit.Begin(t, f.pool, "LOCK TABLE used_sign_ins IN SHARE ROW EXCLUSIVE MODE")
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		all.Go(func() { _, errs[i] = f.pod(secret, f.pool).Complete(acting(t), cookie, back) })
	}
	testkit.Eventually(t, "both callbacks wait to mark the sign-in", func() bool {
		return testkit.Get[int](t, f.pool, "SELECT count(*) FROM pg_locks WHERE relation = 'used_sign_ins'::regclass AND NOT granted") == 2
	})
	testkit.Release(t, holder)
	all.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("got %v and %v, want one success", errs[0], errs[1])
	}
	refused(t, "the other", errors.Join(errs...))
	if sessions, records := f.count(t, "sessions"), f.count(t, "audit_log"); sessions != 1 || records != 2 {
		t.Errorf("%d sessions and %d records, want 1, and 2 with the record of the account", sessions, records)
	}
}

func acting(t *testing.T) context.Context {
	t.Helper()
	return audit.WithActor(t.Context(), audit.Actor{Kind: audit.Developer, RequestID: "r"})
}

func refuseRecords(t *testing.T, pool *pgxpool.Pool) (allow func()) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
		CREATE TRIGGER refused BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse()`)
	check.NoError(t, err)
	return func() {
		t.Helper()
		_, err := pool.Exec(t.Context(), "DROP TRIGGER refused ON audit_log")
		check.NoError(t, err)
	}
}

func TestSignInAndSignOutHappenOnlyWithTheirRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := acting(t)
	expect := func(what string, live, used, recorded int) {
		t.Helper()
		got := [3]int{f.count(t, "sessions"), f.count(t, "used_sign_ins"), f.count(t, "audit_log")}
		check.Equal(t, got, [3]int{live, used, recorded}, "%s: sessions, used sign-ins and records", what)
	}
	cookie, back := f.returned(t)
	allow := refuseRecords(t, f.pool)
	if _, err := f.signIn.Complete(ctx, cookie, back); err == nil {
		t.Fatal("the record was not refused: the test proves nothing")
	}
	expect("a sign-in without its record", 0, 0, 0)
	allow()
	cookie, back = f.returned(t) // the provider's code is used up
	completed, err := f.signIn.Complete(ctx, cookie, back)
	check.NoError(t, err)
	expect("a sign-in", 1, 1, 2) // with that of the new account
	token := completed.Token
	session, err := f.store.Lookup(ctx, token)
	check.NoError(t, err)

	for name, signOut := range map[string]func() error{
		"a sign-out":            func() error { return f.signIn.SignOut(ctx, token, session) },
		"a sign-out everywhere": func() error { return f.signIn.SignOutEverywhere(ctx, session) },
	} {
		testkit.Exec(t, f.pool, "DROP FUNCTION refuse CASCADE")
		allow := refuseRecords(t, f.pool)
		if err := signOut(); err == nil {
			t.Fatal("the record was not refused: the test proves nothing")
		}
		expect(name+" without its record", 1, 1, 2)
		allow()
	}
	check.NoError(t, f.signIn.SignOutEverywhere(ctx, session))
	expect("a sign-out everywhere", 0, 1, 3)
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
		check.NoError(t, f.store.Forget(t.Context()))
	}
}
