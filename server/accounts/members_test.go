package accounts_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/accounts"
	"examprep.dev/server/audit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAnInvitationIsAcceptedOnceByThePersonOfItsAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := person("ada"), person("bob")
	account := f.owned(ada)
	invited, err := f.Invite(t.Context(), account, ada, "BOB@example.org", accounts.Developer)
	check.NoError(t, err)
	check.Equal(t, invited.Email, "bob@example.org", "address")
	unverified, other := bob, bob
	unverified.Email, other.Email = "", "bob2@example.org"
	for name, stranger := range map[string]accounts.Person{
		"an address that is not verified": unverified, "another address": other, "another person": person("mallory"),
		"an address that looks alike": {Issuer: issuer, Subject: "x", Email: "b\u043eb@example.org"},
	} {
		_, err := f.Accept(t.Context(), stranger, invited.ID)
		expect[*accounts.NotFoundError](t, name, err)
		expect[*accounts.NotFoundError](t, name+" declines", f.Decline(t.Context(), stranger, invited.ID))
		offers, err := f.Offers(t.Context(), stranger)
		if err != nil || len(offers) > 0 {
			t.Errorf("%s sees %v, %v", name, offers, err)
		}
	}
	shouting := bob
	shouting.Email = "Bob@EXAMPLE.org"
	offers, err := f.Offers(t.Context(), shouting)
	if err != nil || len(offers) != 1 || offers[0].ID != invited.ID || offers[0].Account != ada.Name() ||
		offers[0].Role != accounts.Developer || offers[0].Inviter != ada.Email || !offers[0].ExpiresAt.Equal(invited.ExpiresAt) {
		t.Errorf("bob sees %+v, %v", offers, err)
	}
	joined, err := f.Accept(t.Context(), shouting, invited.ID)
	check.NoError(t, err)
	check.Equal(t, joined, account, "account")
	check.Equal(t, f.roles(account)["bob"], accounts.Developer, "role")
	_, err = f.Accept(t.Context(), bob, invited.ID)
	expect[*accounts.NotFoundError](t, "a second time", err)

	second := bob
	second.Issuer = "https://another.example" // another person with the same address
	_, err = f.Accept(t.Context(), second, invited.ID)
	expect[*accounts.NotFoundError](t, "a second issuer", err)
	again, err := f.Invite(t.Context(), account, ada, bob.Email, accounts.Owner)
	check.NoError(t, err)
	_, err = f.Accept(t.Context(), bob, again.ID)
	expect[*accounts.ConflictError](t, "a member", err)
	check.Equal(t, f.roles(account)["bob"], accounts.Developer, "role after an invitation that a member cannot accept")
	_, err = f.Accept(t.Context(), second, again.ID)
	check.NoErrorf(t, err, "the other person with the address")
}

func TestWhenAnInvitationEnds(t *testing.T) {
	t.Parallel()
	ada, bob, eve := person("ada"), person("bob"), person("eve")
	for name, end := range map[string]func(t *testing.T, f *fixture, account uuid.UUID, invited accounts.Invitation){
		"after 14 days": func(_ *testing.T, f *fixture, _ uuid.UUID, _ accounts.Invitation) { f.pass(14 * 24 * time.Hour) },
		"declined": func(t *testing.T, f *fixture, _ uuid.UUID, invited accounts.Invitation) {
			t.Helper()
			check.NoError(t, f.Decline(t.Context(), bob, invited.ID))
		},
		"withdrawn": func(t *testing.T, f *fixture, account uuid.UUID, invited accounts.Invitation) {
			t.Helper()
			check.NoError(t, f.Remove(t.Context(), account, eve, invited.ID))
		},
		"replaced": func(t *testing.T, f *fixture, account uuid.UUID, _ accounts.Invitation) {
			t.Helper()
			_, err := f.Invite(t.Context(), account, eve, bob.Email, accounts.Viewer)
			check.NoError(t, err)
		},
		"its inviter is removed": func(t *testing.T, f *fixture, account uuid.UUID, _ accounts.Invitation) {
			t.Helper()
			check.NoError(t, f.Remove(t.Context(), account, eve, f.member(account, ada).ID))
		},
		"its inviter is removed by an administrator": func(t *testing.T, f *fixture, account uuid.UUID, _ accounts.Invitation) {
			t.Helper()
			check.NoError(t, f.admin.Remove(t.Context(), ada.Name(), f.member(account, ada).ID))
		},
		"its inviter is no owner any more": func(t *testing.T, f *fixture, account uuid.UUID, _ accounts.Invitation) {
			t.Helper()
			_, err := f.SetRole(t.Context(), account, eve, f.member(account, ada).ID, accounts.Developer)
			check.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			account := f.owned(ada)
			f.join(account, ada, eve, accounts.Owner)
			invited, err := f.Invite(t.Context(), account, ada, bob.Email, accounts.Owner)
			check.NoError(t, err)
			end(t, f, account, invited)
			_, err = f.Accept(t.Context(), bob, invited.ID)
			expect[*accounts.NotFoundError](t, "accept", err)
			if _, member := f.roles(account)["bob"]; member {
				t.Error("bob is a member")
			}
		})
	}
}

// TestWhatEachRoleMayChange asks as each role, as a member that was removed, and as a person of another account.
func TestWhatEachRoleMayChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, dev, view, former, stranger := person("ada"), person("dev"), person("view"), person("former"), person("stranger")
	account := f.owned(ada)
	f.owned(stranger)
	f.join(account, ada, dev, accounts.Developer)
	f.join(account, ada, view, accounts.Viewer)
	f.join(account, ada, former, accounts.Owner)
	check.NoError(t, f.Remove(t.Context(), account, ada, f.member(account, former).ID))
	before := f.people(account)
	for _, by := range []accounts.Person{dev, view, former, stranger} {
		_, err := f.Invite(t.Context(), account, by, "new@example.org", accounts.Viewer)
		expect[*accounts.ForbiddenError](t, by.Subject+" invites", err)
		for _, member := range before.Members {
			_, err := f.SetRole(t.Context(), account, by, member.ID, accounts.Owner)
			expect[*accounts.ForbiddenError](t, by.Subject+" promotes", err)
			if member.Subject != by.Subject {
				expect[*accounts.ForbiddenError](t, by.Subject+" removes", f.Remove(t.Context(), account, by, member.ID))
			}
		}
	}
	check.Equal(t, fmt.Sprint(f.people(account)), fmt.Sprint(before), "members")
	for _, id := range []uuid.UUID{uuid.Nil, uuid.New()} {
		expect[*accounts.NotFoundError](t, "an account that does not exist", f.Remove(t.Context(), id, ada, uuid.New()))
		expect[*accounts.NotFoundError](t, "a member that does not exist", f.Remove(t.Context(), account, ada, id))
		_, err := f.SetRole(t.Context(), account, ada, id, accounts.Viewer)
		expect[*accounts.NotFoundError](t, "a role of nobody", err)
	}
	foreign := f.people(f.owned(person("other"))).Members[0]
	expect[*accounts.NotFoundError](t, "another account's member", f.Remove(t.Context(), account, ada, foreign.ID))
	for _, leaving := range []accounts.Person{dev, view} {
		check.NoError(t, f.Remove(t.Context(), account, leaving, f.member(account, leaving).ID))
	}
	check.Equal(t, len(f.roles(account)), 1, "members left")
}

func TestAnAccountWithMembersKeepsAnOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := person("ada"), person("bob")
	account := f.owned(ada)
	f.join(account, ada, bob, accounts.Developer)
	owner := f.member(account, ada)
	expect[*accounts.ConflictError](t, "the only owner leaves", f.Remove(t.Context(), account, ada, owner.ID))
	_, err := f.SetRole(t.Context(), account, ada, owner.ID, accounts.Viewer)
	expect[*accounts.ConflictError](t, "the only owner steps down", err)
	expect[*accounts.ConflictError](t, "an administrator removes it", f.admin.Remove(t.Context(), ada.Name(), owner.ID))
	changed, err := f.SetRole(t.Context(), account, ada, f.member(account, bob).ID, accounts.Owner)
	check.NoError(t, err)
	check.Equal(t, changed.Role, accounts.Owner, "role")
	check.NoError(t, f.Remove(t.Context(), account, ada, owner.ID))
	check.NoErrorf(t, f.Remove(t.Context(), account, bob, f.member(account, bob).ID), "the last member leaves")
	check.Equal(t, len(f.roles(account)), 0, "members")

	_, err = f.admin.Add(t.Context(), ada.Name(), bob, accounts.Developer)
	expect[*accounts.ConflictError](t, "a first member that is no owner", err)
	_, err = f.admin.Invite(t.Context(), ada.Name(), bob.Email, accounts.Viewer)
	expect[*accounts.ConflictError](t, "an invitation of a first member that is no owner", err)
}

// TestTwoOwnersWhoRemoveEachOtherAtOnce: one of them succeeds. The other has lost its role by then.
func TestTwoOwnersWhoRemoveEachOtherAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for n := range 200 {
		ada, bob := person(fmt.Sprintf("ada%d", n)), person(fmt.Sprintf("bob%d", n))
		account := f.owned(ada)
		f.join(account, ada, bob, accounts.Owner)
		ids := map[accounts.Person]uuid.UUID{ada: f.member(account, ada).ID, bob: f.member(account, bob).ID}
		var both sync.WaitGroup
		errs := make([]error, 2)
		act := func(i int, by, of accounts.Person) {
			both.Go(func() {
				if (n+i)%3 == 0 {
					_, errs[i] = f.SetRole(context.WithoutCancel(t.Context()), account, by, ids[of], accounts.Viewer)
				} else {
					errs[i] = f.Remove(context.WithoutCancel(t.Context()), account, by, ids[of])
				}
			})
		}
		act(0, ada, bob)
		act(1, bob, ada)
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("schedule %d: %v, %v, want one of them", n, errs[0], errs[1])
		}
		for _, err := range errs {
			if err != nil {
				expect[*accounts.ForbiddenError](t, "the one that came second", err)
			}
		}
		owners := 0
		for _, role := range f.roles(account) {
			if role == accounts.Owner {
				owners++
			}
		}
		check.Equal(t, owners, 1, "owners")
	}
}

func TestMembersAndInvitationsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := person("ada")
	account := f.owned(ada)
	invite := func(n int) error {
		_, err := f.Invite(t.Context(), account, ada, fmt.Sprintf("person%d@example.org", n), accounts.Viewer)
		return err
	}
	for n := range accounts.MaxPeople - 1 {
		check.NoError(t, invite(n))
	}
	expect[*accounts.LimitError](t, "one more", invite(accounts.MaxPeople))
	_, err := f.admin.Add(t.Context(), ada.Name(), person("bob"), accounts.Viewer)
	expect[*accounts.LimitError](t, "one more by an administrator", err)
	check.NoErrorf(t, invite(0), "an address that is invited already")
	f.pass(14 * 24 * time.Hour)
	check.NoErrorf(t, invite(accounts.MaxPeople), "after the invitations ended")
	check.Equal(t, testkit.Get[int](t, f.pool, "SELECT count(*) FROM account_invitations"), 1, "rows of invitations")
}

func TestWhatCannotBeAnAddressOrARole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := person("ada")
	account := f.owned(ada)
	for _, email := range []string{
		"", "ada", "@example.org", "ada@", "a@b@c", "ada @example.org", " ada@example.org", "ada@example.org\n", "\u00e4da@example.org",
		strings.Repeat("a", 250) + "@b.example",
	} {
		_, err := f.Invite(t.Context(), account, ada, email, accounts.Viewer)
		expect[*accounts.InvalidError](t, fmt.Sprintf("%q", email), err)
	}
	for _, role := range []accounts.Role{"", "admin", "Owner"} {
		_, err := f.Invite(t.Context(), account, ada, "bob@example.org", role)
		expect[*accounts.InvalidError](t, fmt.Sprintf("invite as %q", role), err)
		_, err = f.SetRole(t.Context(), account, ada, f.member(account, ada).ID, role)
		expect[*accounts.InvalidError](t, fmt.Sprintf("become %q", role), err)
		_, err = f.admin.Add(t.Context(), ada.Name(), person("bob"), role)
		expect[*accounts.InvalidError](t, fmt.Sprintf("add as %q", role), err)
	}
}

// TestEachChangeIsRecordedWithoutAnAddress: a target is the id of a member or invitation.
func TestEachChangeIsRecordedWithoutAnAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := person("ada"), person("bob")
	as := func(p accounts.Person) context.Context { return f.acting(audit.Developer, p.Name()) }
	admin := f.acting(audit.Administrator, "root@bastion")
	account, err := f.CreatePersonal(as(ada), ada)
	check.NoError(t, err)
	invited, err := f.Invite(as(ada), account, ada, bob.Email, accounts.Viewer)
	check.NoError(t, err)
	_, err = f.Accept(as(bob), bob, invited.ID)
	check.NoError(t, err)
	member := f.member(account, bob)
	_, err = f.SetRole(as(ada), account, ada, member.ID, accounts.Developer)
	check.NoError(t, err)
	check.NoError(t, f.Remove(as(bob), account, bob, member.ID))
	second, err := f.admin.Invite(admin, ada.Name(), bob.Email, accounts.Viewer)
	check.NoError(t, err)
	check.NoError(t, f.Decline(as(bob), bob, second.ID))
	third, err := f.admin.Invite(admin, ada.Name(), bob.Email, accounts.Viewer)
	check.NoError(t, err)
	check.NoError(t, f.admin.Remove(admin, ada.Name(), third.ID))
	added, err := f.admin.Add(admin, ada.Name(), person("eve"), accounts.Owner)
	check.NoError(t, err)
	check.NoError(t, f.admin.LimitKeys(admin, ada.Name(), 7))
	check.Equal(t, testkit.Get[int](t, f.pool, "SELECT key_limit FROM accounts WHERE id = $1", account), 7, "limit")
	want := []string{
		"ada account.create " + f.member(account, ada).ID.String() + " {}",
		"ada invitation.create " + invited.ID.String() + ` {"role": "viewer"}`,
		"bob invitation.accept " + invited.ID.String() + ` {"role": "viewer", "member": "` + member.ID.String() + `"}`,
		"ada member.update " + member.ID.String() + ` {"was": "viewer", "role": "developer"}`,
		"bob member.remove " + member.ID.String() + " {}",
		"root@bastion invitation.create " + second.ID.String() + ` {"role": "viewer"}`,
		"bob invitation.decline " + second.ID.String() + " {}",
		"root@bastion invitation.create " + third.ID.String() + ` {"role": "viewer"}`,
		"root@bastion invitation.withdraw " + third.ID.String() + " {}",
		"root@bastion member.add " + added.ID.String() + ` {"role": "owner"}`,
		`root@bastion account.limit  {"keys": 7}`,
	}
	var got []string
	var row string
	testkit.ForEach(t, f.pool, []any{&row}, func() { got = append(got, row) }, `SELECT concat_ws(' ', replace(actor, $1, ''), action, target, detail)
		FROM audit_log WHERE account_id = $2 ORDER BY id`, issuer+"#", account)
	check.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "records")
}

func TestAnAdministratorListsAccountsAndTheirMembers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := person("ada")
	account := f.owned(ada)
	testkit.Exec(t, f.pool, "INSERT INTO accounts (id, name) SELECT gen_random_uuid(), 'n' || n FROM generate_series(1, 1000) n")
	testkit.Exec(t, f.pool, "INSERT INTO accounts (id, name) SELECT gen_random_uuid(), 'm' || n FROM generate_series(1, 999) n")
	_, err := f.Invite(t.Context(), account, ada, "bob@example.org", accounts.Viewer)
	check.NoError(t, err)
	seen, last := 0, ""
	for found, err := range f.admin.All(t.Context()) {
		check.NoError(t, err)
		if found.Name <= last {
			t.Fatalf("%q follows %q", found.Name, last)
		}
		last = found.Name
		seen++
		if found.ID == account && (found.Members != 1 || found.Invitations != 1 || found.KeyLimit != accounts.PersonalKeys) {
			t.Errorf("got %+v", found)
		}
	}
	check.Equal(t, seen, 2000, "accounts")
	people, err := f.admin.People(t.Context(), ada.Name())
	check.NoError(t, err)
	if len(people.Members) != 1 || len(people.Invitations) != 1 || people.Members[0].Email != ada.Email {
		t.Errorf("people: %+v", people)
	}
	_, err = f.admin.People(t.Context(), "nobody")
	expect[*accounts.UnknownError](t, "an unknown account", err)
	expect[*accounts.InvalidError](t, "a limit below zero", f.admin.LimitKeys(t.Context(), ada.Name(), -1))
	_, err = f.admin.Add(t.Context(), ada.Name(), accounts.Person{Issuer: issuer}, accounts.Owner)
	expect[*accounts.InvalidError](t, "a person without a subject", err)
	_, err = f.admin.Add(t.Context(), ada.Name(), ada, accounts.Owner)
	expect[*accounts.ConflictError](t, "a member", err)
}
