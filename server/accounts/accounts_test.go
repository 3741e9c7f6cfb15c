package accounts_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/accounts"
	"examprep.dev/server/audit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const issuer = "https://id.example"

func person(subject string) accounts.Person {
	return accounts.Person{Issuer: issuer, Subject: subject, Email: subject + "@example.org"}
}

// fixture is a database of accounts with a clock that the test moves.
type fixture struct {
	*accounts.Store

	t     *testing.T
	pool  *pgxpool.Pool
	admin *accounts.Administration
	mu    sync.Mutex
	clock time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, pool: testkit.Database(t), clock: time.Now()}
	f.Store = accounts.NewStore(f.pool, true, f.now)
	f.admin = accounts.NewAdministration(f.pool, f.now)
	return f
}

func (f *fixture) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock = f.clock.Add(d)
}

// acting returns a context with an actor, so changes are recorded.
func (f *fixture) acting(kind audit.ActorKind, name string) context.Context {
	return audit.WithActor(f.t.Context(), audit.Actor{Kind: kind, Name: name, RequestID: "r"})
}

// CreatePersonal is the store's, in a transaction of its own.
func (f *fixture) CreatePersonal(ctx context.Context, of accounts.Person) (account uuid.UUID, err error) {
	err = pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		account, err = f.Store.CreatePersonal(ctx, tx, of)
		return err
	})
	return account, err
}

// Accept is the store's, in a transaction of its own.
func (f *fixture) Accept(ctx context.Context, joining accounts.Person, invitation uuid.UUID) (account uuid.UUID, err error) {
	err = pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		account, err = f.Store.Accept(ctx, tx, joining, invitation)
		return err
	})
	return account, err
}

// owned returns an account whose owner the person is.
func (f *fixture) owned(owner accounts.Person) uuid.UUID {
	f.t.Helper()
	id, err := f.CreatePersonal(f.t.Context(), owner)
	check.NoError(f.t, err)
	return id
}

// join makes a person a member of the account, by an owner's invitation.
func (f *fixture) join(account uuid.UUID, owner, joining accounts.Person, role accounts.Role) accounts.Member {
	f.t.Helper()
	invited, err := f.Invite(f.t.Context(), account, owner, joining.Email, role)
	check.NoError(f.t, err)
	joined, err := f.Accept(f.t.Context(), joining, invited.ID)
	check.NoError(f.t, err)
	check.Equal(f.t, joined, account, "account")
	return f.member(account, joining)
}

func (f *fixture) people(account uuid.UUID) *accounts.People {
	f.t.Helper()
	people, err := f.People(f.t.Context(), account)
	check.NoError(f.t, err)
	return people
}

func (f *fixture) member(account uuid.UUID, of accounts.Person) accounts.Member {
	f.t.Helper()
	for _, member := range f.people(account).Members {
		if member.Issuer == of.Issuer && member.Subject == of.Subject {
			return member
		}
	}
	f.t.Fatalf("%s is no member", of.Name())
	return accounts.Member{}
}

// roles returns the roles of an account's members by their subjects.
func (f *fixture) roles(account uuid.UUID) map[string]accounts.Role {
	f.t.Helper()
	roles := map[string]accounts.Role{}
	for _, member := range f.people(account).Members {
		roles[member.Subject] = member.Role
	}
	return roles
}

func expect[E error](t *testing.T, what string, err error) {
	t.Helper()
	if _, ok := errors.AsType[E](err); !ok {
		t.Errorf("%s: got %v, want a %T", what, err, *new(E))
	}
}

func (f *fixture) enter(who accounts.Person) (account uuid.NullUUID, err error) {
	f.t.Helper()
	err = pgx.BeginFunc(f.t.Context(), f.pool, func(tx pgx.Tx) error {
		account, err = f.Enter(f.t.Context(), tx, who)
		return err
	})
	return account, err
}

func TestAFirstSignInMakesOneAccountHoweverManyComeAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered := make([]uuid.NullUUID, 8)
	var all sync.WaitGroup
	for i := range entered {
		all.Go(func() {
			var err error
			entered[i], err = f.enter(person("ada"))
			check.NoError(t, err)
		})
	}
	all.Wait()
	for _, account := range entered {
		check.Equal(t, account, entered[0], "account")
	}
	check.Equal(t, testkit.Get[int](t, f.pool, "SELECT count(*) FROM accounts"), 1, "accounts")
	check.Equal(t, testkit.Get[int](t, f.pool, "SELECT key_limit FROM accounts"), accounts.PersonalKeys, "limit of keys")
	check.Equal(t, f.roles(entered[0].UUID)["ada"], accounts.Owner, "role")
}

// TestNoPersonEntersAnAccountThatExistsByItsName: an administrator chose the name that a person's account would have.
func TestNoPersonEntersAnAccountThatExistsByItsName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := testkit.Get[uuid.UUID](t, f.pool, "INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), $1) RETURNING id", issuer+"#ada")
	testkit.Exec(t, f.pool, "INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), $1)", issuer+"#ada-2")
	entered, err := f.enter(person("ada"))
	check.NoError(t, err)
	if entered.UUID == first {
		t.Error("the person entered the account that an administrator made")
	}
	check.Equal(t, testkit.Get[string](t, f.pool, "SELECT name FROM accounts WHERE id = $1", entered.UUID), issuer+"#ada-3", "name")
	check.Equal(t, len(f.people(first).Members), 0, "members of the account that existed")
}

func TestAPersonWithoutAnAccountIsRefusedWherePersonsGetNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.admin.Ensure(t.Context(), "acme")
	check.NoError(t, err)
	f.Store = accounts.NewStore(f.pool, false, f.now)
	_, err = f.enter(person("ada"))
	expect[*accounts.NoAccountError](t, "sign-in", err)
	_, err = f.CreatePersonal(t.Context(), person("ada"))
	expect[*accounts.NoAccountError](t, "an account of one's own", err)
	invited, err := f.admin.Invite(t.Context(), "acme", "ADA@Example.org", accounts.Owner)
	check.NoError(t, err)
	entered, err := f.enter(person("ada"))
	if err != nil || entered.Valid {
		t.Errorf("with an invitation: %v, %v, want no account yet", entered, err)
	}
	account, err := f.Accept(t.Context(), person("ada"), invited.ID)
	check.NoError(t, err)
	entered, err = f.enter(person("ada"))
	check.NoError(t, err)
	check.Equal(t, entered, uuid.NullUUID{UUID: account, Valid: true}, "account after the invitation was accepted")
}

func TestAPersonWorksInTheAccountThatItChoseLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := person("ada"), person("bob")
	own, other := f.owned(ada), f.owned(bob)
	f.pass(time.Minute)
	f.join(other, bob, ada, accounts.Viewer)
	expectEntered := func(want uuid.UUID) {
		t.Helper()
		entered, err := f.enter(ada)
		check.NoError(t, err)
		check.Equal(t, entered.UUID, want, "account")
	}
	expectEntered(other)
	f.pass(time.Minute)
	choose := func(who accounts.Person) error {
		return pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error { return f.Choose(t.Context(), tx, who, own) })
	}
	check.NoError(t, choose(ada))
	expectEntered(own)
	expect[*accounts.NotFoundError](t, "an account of others", choose(bob))
	found, err := f.Memberships(t.Context(), ada)
	check.NoError(t, err)
	if len(found) != 2 || found[0].Account != own || found[1].Role != accounts.Viewer || found[1].Name != bob.Name() {
		t.Errorf("memberships: %+v", found)
	}
	_, err = f.CreatePersonal(t.Context(), ada)
	expect[*accounts.ConflictError](t, "a second account of one's own", err)
}

func TestTheNameOfAnAccountIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, subject := range []string{strings.Repeat("s", 255), "blank at the end ", "sha256:" + strings.Repeat("0", 64)} {
		id := f.owned(person(subject))
		name := testkit.Get[string](t, f.pool, "SELECT name FROM accounts WHERE id = $1", id)
		if len(name) > 190 || !strings.HasPrefix(name, issuer+"#sha256:") || name == issuer+"#"+subject {
			t.Errorf("%q: account %q", subject, name)
		}
	}
}

func TestWhatEachRoleCovers(t *testing.T) {
	t.Parallel()
	ranked := []accounts.Role{"", accounts.Viewer, accounts.Developer, accounts.Owner}
	for i, has := range ranked {
		for j, needed := range ranked {
			check.Equal(t, has.Covers(needed), i >= j, "%q covers %q", has, needed)
		}
		if accounts.Role("admin").Covers(has) {
			t.Errorf("an unknown role covers %q", has)
		}
	}
}
