package accounts_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"examprep.dev/server/accounts"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// leave ends a person's membership by the person itself.
func (f *fixture) leave(account uuid.UUID, leaving accounts.Person) {
	f.t.Helper()
	check.NoError(f.t, f.Remove(f.t.Context(), account, leaving, f.member(account, leaving).ID))
}

// TestAPersonThatLeftItsAccountEntersItAgain: else each account that a person leaves brings another limit of keys.
func TestAPersonThatLeftItsAccountEntersItAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := person("ada")
	first := f.owned(ada)
	for range 3 {
		f.leave(first, ada)
		entered, err := f.enter(ada)
		check.NoError(t, err)
		check.Equal(t, entered, uuid.NullUUID{UUID: first, Valid: true}, "account after the next sign-in")
		check.Equal(t, f.roles(first)["ada"], accounts.Owner, "role")
	}
	f.leave(first, ada)
	check.Equal(t, f.owned(ada), first, "account by PUT session/account")
	check.Equal(t, testkit.Get[int](t, f.pool, "SELECT count(*) FROM accounts"), 1, "accounts")
}

// TestAnAccountThatItsCreatorDidNotLeaveLastIsNotEnteredAgain: an administrator removed the creator, or others have used the account
// since.
func TestAnAccountThatItsCreatorDidNotLeaveLastIsNotEnteredAgain(t *testing.T) {
	t.Parallel()
	ada, bob := person("ada"), person("bob")
	for name, end := range map[string]func(f *fixture, account uuid.UUID){
		"an administrator removed the creator": func(f *fixture, account uuid.UUID) {
			check.NoError(t, f.admin.Remove(t.Context(), ada.Name(), f.member(account, ada).ID))
		},
		"another owner left last": func(f *fixture, account uuid.UUID) {
			f.join(account, ada, bob, accounts.Owner)
			f.leave(account, ada)
			f.leave(account, bob)
		},
		"another person is a member": func(f *fixture, account uuid.UUID) {
			f.leave(account, ada)
			_, err := f.admin.Add(t.Context(), ada.Name(), bob, accounts.Owner)
			check.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			account := f.owned(ada)
			end(f, account)
			entered, err := f.enter(ada)
			check.NoError(t, err)
			if entered.UUID == account || f.roles(account)["ada"] != "" {
				t.Error("the creator entered it again")
			}
			check.Equal(t, f.roles(entered.UUID)["ada"], accounts.Owner, "role in the new account")
		})
	}
}

// TestSignInsOfAPersonMakeAFewAccounts: a person hands each to another one, who leaves it too.
func TestSignInsOfAPersonMakeAFewAccounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := person("ada"), person("bob")
	f.owned(bob)
	for range accounts.MaxCreated {
		account, err := f.enter(ada)
		check.NoError(t, err)
		f.join(account.UUID, ada, bob, accounts.Owner)
		f.leave(account.UUID, ada)
		f.leave(account.UUID, bob)
	}
	_, err := f.enter(ada)
	expect[*accounts.NoAccountError](t, "a sign-in after the most accounts", err)
	check.Equal(t, testkit.Get[int](t, f.pool, "SELECT count(*) FROM accounts"), accounts.MaxCreated+1, "accounts")
}

// TestTheNamesThatAnAccountTriesAreBounded: other accounts have all of them.
func TestTheNamesThatAnAccountTriesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name := person("ada").Name()
	testkit.Exec(t, f.pool, "INSERT INTO accounts (id, name) SELECT gen_random_uuid(), $1 || '-' || n FROM generate_series(2, 1000) n", name)
	testkit.Exec(t, f.pool, "INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), $1)", name)
	_, err := f.enter(person("ada"))
	expect[*accounts.ConflictError](t, "no free name", err)
	testkit.Exec(t, f.pool, "DELETE FROM accounts WHERE name = $1", name+"-700")
	entered, err := f.enter(person("ada"))
	check.NoError(t, err)
	check.Equal(t, testkit.Get[string](t, f.pool, "SELECT name FROM accounts WHERE id = $1", entered.UUID), name+"-700", "name")
}

// TestAPersonHasABoundedNumberOfAccounts: a sign-in and the list are short.
func TestAPersonHasABoundedNumberOfAccounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := person("ada"), person("bob")
	own, other := f.owned(ada), f.owned(bob)
	f.addMemberships(accounts.MaxAccounts - 1)
	invited, err := f.Invite(t.Context(), other, bob, ada.Email, accounts.Viewer)
	check.NoError(t, err)
	_, err = f.Accept(t.Context(), ada, invited.ID)
	expect[*accounts.ConflictError](t, "one account more", err)
	_, err = f.admin.Add(t.Context(), bob.Name(), ada, accounts.Viewer)
	expect[*accounts.ConflictError](t, "one more by an administrator", err)
	entered, err := f.enter(ada)
	check.NoError(t, err)
	check.Equal(t, entered.UUID, own, "account that the person chose last")

	testkit.Exec(t, f.pool, "UPDATE account_members SET account_id = $1, chosen_at = now() - interval '2 days' WHERE id = (SELECT id FROM account_members WHERE role = 'viewer' LIMIT 1)", other)
	found, err := f.Memberships(t.Context(), ada)
	check.NoError(t, err)
	check.Equal(t, len(found), accounts.MaxAccounts, "listed accounts")
	f.leave(other, ada)
	check.Equal(t, f.join(other, bob, ada, accounts.Developer).Role, accounts.Developer, "role after the person left an account")
}

// TestInvitationsThatAPersonAcceptsAtOnceKeepTheLimit: the person has room for one more account.
func TestInvitationsThatAPersonAcceptsAtOnceKeepTheLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := person("ada"), person("bob")
	f.addMemberships(accounts.MaxAccounts - 1)
	invitations := make([]accounts.Invitation, 6)
	for n := range invitations {
		name := fmt.Sprint("acme", n)
		id, err := f.admin.Ensure(t.Context(), name)
		check.NoError(t, err)
		_, err = f.admin.Add(t.Context(), name, bob, accounts.Owner)
		check.NoError(t, err)
		invitations[n], err = f.Invite(t.Context(), id, bob, ada.Email, accounts.Viewer)
		check.NoError(t, err)
	}
	var all sync.WaitGroup
	var accepted atomic.Int32
	for _, invited := range invitations {
		all.Go(func() {
			if _, err := f.Accept(t.Context(), ada, invited.ID); err == nil {
				accepted.Add(1)
			} else {
				expect[*accounts.ConflictError](t, "one account more", err)
			}
		})
	}
	all.Wait()
	check.Equal(t, accepted.Load(), 1, "accepted invitations")
}

// addMemberships makes ada a viewer of n accounts.
func (f *fixture) addMemberships(n int) {
	f.t.Helper()
	testkit.Exec(f.t, f.pool, `WITH made AS (INSERT INTO accounts (id, name) SELECT gen_random_uuid(), 'n' || n FROM generate_series(1, $1::int) n RETURNING id)
		INSERT INTO account_members (id, account_id, issuer, subject, email, role, created_at, created_by, chosen_at)
		SELECT gen_random_uuid(), id, $2, 'ada', '', 'viewer', now(), 'root@bastion', now() - interval '1 day' FROM made`, n, issuer)
}
