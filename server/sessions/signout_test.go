package sessions_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

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
	token, err := f.signIn.Complete(ctx, cookie, back)
	check.NoError(t, err)
	expect("a sign-in", 1, 1, 1)
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
		expect(name+" without its record", 1, 1, 1)
		allow()
	}
	check.NoError(t, f.signIn.SignOutEverywhere(ctx, session))
	expect("a sign-out everywhere", 0, 1, 2)
}

func TestOfTwoCallbacksAtOnceOneSucceeds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cookie, back := f.returned(t)
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		all.Go(func() { _, errs[i] = f.pod(secret, f.pool).Complete(acting(t), cookie, back) })
	}
	all.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("got %v and %v, want one success", errs[0], errs[1])
	}
	refused(t, "the other", errors.Join(errs...))
	if sessions, records := f.count(t, "sessions"), f.count(t, "audit_log"); sessions != 1 || records != 1 {
		t.Errorf("%d sessions and %d records, want 1 each", sessions, records)
	}
}

func TestSessionsAreUnavailableWithoutPostgreSQLAndBackWithIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account(t)
	token, err := f.store.Create(t.Context(), sessions.Session{AccountID: account})
	check.NoError(t, err)
	session, err := f.store.Lookup(t.Context(), token)
	check.NoError(t, err)
	restore := testkit.CutOff(t, f.pool)
	for name, call := range map[string]func() error{
		"lookup":              func() error { _, err := f.store.Lookup(t.Context(), token); return err },
		"sign-out":            func() error { return f.signIn.SignOut(t.Context(), token, session) },
		"sign-out everywhere": func() error { return f.signIn.SignOutEverywhere(t.Context(), session) },
		"a new session": func() error {
			_, err := f.store.Create(t.Context(), sessions.Session{AccountID: uuid.New()})
			return err
		},
	} {
		if err := call(); !postgres.Unavailable(err) {
			t.Errorf("%s: got %v, want Postgres away", name, err)
		}
	}
	restore()
	if _, err := f.store.Lookup(t.Context(), token); err != nil {
		t.Errorf("a session was lost: %v", err)
	}
}
