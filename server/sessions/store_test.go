package sessions_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, f *fixture, token string, session sessions.Session){
		"by sign-out": func(t *testing.T, f *fixture, token string, session sessions.Session) {
			t.Helper()
			check.NoError(t, f.signIn.SignOut(t.Context(), token, session))
		},
		"by the end of the membership": func(t *testing.T, f *fixture, _ string, session sessions.Session) {
			t.Helper()
			testkit.Exec(t, f.pool, "DELETE FROM account_members WHERE account_id = $1 AND subject = $2", session.AccountID, session.Subject)
		},
		"by another provider's configuration": func(_ *testing.T, f *fixture, _ string, _ sessions.Session) {
			other := f.config(secret)
			other.Issuer = "https://another.example"
			f.store = sessions.NewStore(f.pool, other)
		},
		"by another sign-in of the browser": func(t *testing.T, f *fixture, token string, _ sessions.Session) {
			t.Helper()
			check.NoError(t, f.store.End(t.Context(), token))
		},
		"by sign-out everywhere": func(t *testing.T, f *fixture, _ string, session sessions.Session) {
			t.Helper()
			check.NoError(t, f.signIn.SignOutEverywhere(t.Context(), session))
		},
		"at its absolute time-out, though it is in use": func(t *testing.T, f *fixture, token string, _ sessions.Session) {
			t.Helper()
			begun := *f.clock
			for age := time.Duration(0); age < 8*time.Hour; age += 30 * time.Minute {
				*f.clock = begun.Add(age)
				_, err := f.store.Lookup(t.Context(), token)
				check.NoErrorf(t, err, "after %s", age)
			}
			*f.clock = begun.Add(8 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			session := f.someone(t)
			token, err := f.store.Create(t.Context(), session)
			check.NoError(t, err)
			_, err = f.store.Lookup(t.Context(), token)
			check.NoError(t, err)
			end(t, f, token, session)
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
	token, err := f.store.Create(t.Context(), f.someone(t))
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
	token, err := f.store.Create(t.Context(), f.someone(t))
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
	token, err := f.store.Create(t.Context(), f.someone(t))
	check.NoError(t, err)
	var row string
	check.NoError(t, f.pool.QueryRow(t.Context(), "SELECT s::text || encode(s.hash, 'escape') FROM sessions s").Scan(&row))
	if strings.Contains(row, token) {
		t.Errorf("the row holds the token: %s", row)
	}
}

func TestEndedSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	session := f.someone(t)
	create := func() string {
		token, err := f.store.Create(t.Context(), session)
		check.NoError(t, err)
		return token
	}
	check.NoError(t, f.store.End(t.Context(), create()))
	check.Equal(t, f.count(t, "sessions"), 0, "sessions remembered after the sign-out")
	create()
	*f.clock = f.clock.Add(9 * time.Hour)
	create()
	check.NoError(t, f.store.Forget(t.Context()))
	check.Equal(t, f.count(t, "sessions"), 1, "remembered sessions")
}

func TestATokenOfAnotherMakerIsRefusedWithoutALookUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made, err := f.store.Create(t.Context(), f.someone(t))
	check.NoError(t, err)
	stranger := sessions.NewStore(f.pool, f.config("another secret of at least thirty-two bytes"))
	foreign, err := stranger.Create(t.Context(), f.someone(t))
	check.NoError(t, err)
	_, ofSignIn, err := f.signIn.Begin(t.Context(), "")
	check.NoError(t, err)
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"a sign-in's cookie":    {ofSignIn, false},
		"made here":             {made, true},
		"of another secret":     {foreign, false},
		"empty":                 {"", false},
		"a character":           {made[:1], false},
		"shorter than random":   {made[:42], false},
		"cut short":             {made[:len(made)-1], false},
		"without its check":     {made[:43], false},
		"with another check":    {made[:43] + foreign[43:], false},
		"another random part":   {foreign[:43] + made[43:], false},
		"with something behind": {made + "A", false},
	} {
		_, authentic := f.store.Authentic([]byte(c.token))
		check.Equal(t, authentic, c.want, "%s: authentic", name)
		_, err := f.store.Lookup(t.Context(), c.token)
		if none, refused := errors.AsType[*sessions.NoSessionError](err); refused == c.want {
			t.Errorf("%s: %v, %v", name, err, none)
		}
	}
}

func TestSessionsAreUnavailableWithoutPostgreSQLAndBackWithIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token, err := f.store.Create(t.Context(), f.someone(t))
	check.NoError(t, err)
	session, err := f.store.Lookup(t.Context(), token)
	check.NoError(t, err)
	restore := testkit.CutOff(t, f.pool)
	for name, call := range map[string]func() error{
		"lookup":              func() error { _, err := f.store.Lookup(t.Context(), token); return err },
		"sign-out":            func() error { return f.signIn.SignOut(t.Context(), token, session) },
		"sign-out everywhere": func() error { return f.signIn.SignOutEverywhere(t.Context(), session) },
		"a new session": func() error {
			_, err := f.store.Create(t.Context(), session)
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

// TestTokensOfAPersonHaveItsName: requests with any token of a person count for the person, until the session's lifetime ends.
func TestTokensOfAPersonHaveItsName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name := func(session sessions.Session) func() string {
		token, err := f.store.Create(t.Context(), session)
		check.NoError(t, err)
		return func() string {
			person, ok := f.store.Authentic([]byte(token))
			check.Equal(t, ok, len(person) == 16, "a name")
			return string(person)
		}
	}
	ada := f.someone(t)
	other, mover := ada, ada
	other.Issuer, other.AccountID = "https://another.example", uuid.Nil
	mover.AccountID, mover.Email = uuid.Nil, "ada@example.org"
	first, second, bob, elsewhere := name(ada), name(mover), name(f.someone(t)), name(other)
	if first() == "" || first() != second() || first() == bob() || first() == elsewhere() {
		t.Errorf("names: %q, %q of ada, %q of bob, %q of another issuer", first(), second(), bob(), elsewhere())
	}
	begun := *f.clock
	*f.clock = begun.Add(8*time.Hour - time.Microsecond)
	check.Equal(t, first(), second(), "name within the lifetime")
	*f.clock = begun.Add(8 * time.Hour)
	check.Equal(t, first(), "", "name after the lifetime")
}

// TestAPersonHasABoundedNumberOfSessions: the oldest ends.
func TestAPersonHasABoundedNumberOfSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := f.someone(t), f.someone(t)
	tokens := make([]string, sessions.MaxSessions+2)
	of := func(session sessions.Session) string {
		*f.clock = f.clock.Add(time.Millisecond)
		token, err := f.store.Create(t.Context(), session)
		check.NoError(t, err)
		return token
	}
	others := of(bob)
	for n := range tokens {
		tokens[n] = of(ada)
	}
	check.Equal(t, f.count(t, "sessions"), sessions.MaxSessions+1, "sessions")
	for n, token := range slices.Concat(tokens, []string{others}) {
		_, err := f.store.Lookup(t.Context(), token)
		if _, ended := errors.AsType[*sessions.NoSessionError](err); ended != (n < 2) || err != nil && !ended {
			t.Errorf("session %d: %v", n, err)
		}
	}
}
