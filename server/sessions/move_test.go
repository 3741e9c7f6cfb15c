package sessions_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/accounts"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAMoveThatPostgreSQLRefusesCanBeRepeated: the person has not become a member of the account that the session did not move to.
func TestAMoveThatPostgreSQLRefusesCanBeRepeated(t *testing.T) {
	t.Parallel()
	const address = "ada@example.org"
	for name, move := range map[string]func(t *testing.T, f *fixture) func(token string, session sessions.Session) (sessions.Session, error){
		"an invitation": func(t *testing.T, f *fixture) func(string, sessions.Session) (sessions.Session, error) {
			t.Helper()
			admin := accounts.NewAdministration(f.pool, time.Now)
			_, err := admin.Ensure(t.Context(), "acme")
			check.NoError(t, err)
			invited, err := admin.Invite(t.Context(), "acme", address, accounts.Owner)
			check.NoError(t, err)
			return func(token string, session sessions.Session) (sessions.Session, error) {
				return f.signIn.Accept(t.Context(), token, session, invited.ID)
			}
		},
		"an account of one's own": func(t *testing.T, f *fixture) func(string, sessions.Session) (sessions.Session, error) {
			t.Helper()
			return func(token string, session sessions.Session) (sessions.Session, error) {
				return f.signIn.CreatePersonal(t.Context(), token, session)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			move := move(t, f)
			session := sessions.Session{Person: accounts.Person{Issuer: f.provider.Issuer(), Subject: "ada", Email: address}}
			token, err := f.store.Create(t.Context(), session)
			check.NoError(t, err)
			end := testkit.Poisoned.Begin(t, f.pool, "sessions", "subject", "ada")
			if _, err := move(token, session); err == nil {
				t.Fatal("the session moved")
			}
			check.Equal(t, f.count(t, "account_members"), 0, "members after the failure")
			end()
			moved, err := move(token, session)
			check.NoError(t, err)
			check.Equal(t, moved.Role, accounts.Owner, "role")
			found, err := f.store.Lookup(t.Context(), token)
			check.NoError(t, err)
			if found != moved || found.AccountID == uuid.Nil {
				t.Errorf("the session is %+v, want %+v", found, moved)
			}
		})
	}
}
