package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/accountsdb"
)

// maxOffers is how many invitations [Store.Offers] returns, the oldest first.
const maxOffers = 100

// Store is what persons do with accounts.
type Store struct {
	db      *pgxpool.Pool
	queries *accountsdb.Queries
	// personal reports whether a person without an account gets one.
	personal bool
	now      func() time.Time
}

// NewStore returns a store on db. personal: a person without an account gets one. now is the clock of invitations.
func NewStore(db *pgxpool.Pool, personal bool, now func() time.Time) *Store {
	return &Store{db: db, queries: accountsdb.New(db), personal: personal, now: now}
}

// Membership is an account of a person.
type Membership struct {
	Account uuid.UUID
	Name    string // the account's
	Role    Role
}

// Offer is an invitation as the invited person sees it.
type Offer struct {
	ID        uuid.UUID
	Account   string // the account's name
	Role      Role
	Inviter   string // the inviter's address, or the Creator's name where it has none
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Enter returns the account that a person works in after a sign-in: the last one that the person chose. A person without an account gets
// one, or a [*NoAccountError] where persons get none, or after [MaxCreated]. A person without an account who has an open invitation gets none yet
// (an invalid id), and decides first. tx is the transaction of the sign-in.
func (s *Store) Enter(ctx context.Context, tx pgx.Tx, person Person) (none uuid.NullUUID, err error) {
	q := s.queries.WithTx(tx)
	known, err := lock(ctx, q, person)
	if err != nil {
		return none, err
	}
	if err := q.SetEmail(ctx, accountsdb.SetEmailParams{Issuer: person.Issuer, Subject: person.Subject, Email: person.Email}); err != nil {
		return none, fmt.Errorf("set email: %w", err)
	}
	if len(known) > 0 {
		return uuid.NullUUID{UUID: known[0].Account, Valid: true}, nil
	}
	offers, err := s.offers(ctx, q, person)
	if err != nil || len(offers) > 0 {
		return none, err
	}
	id, err := s.createPersonal(ctx, q, tx, person)
	return uuid.NullUUID{UUID: id, Valid: err == nil}, err
}

// lock makes changes of one person's accounts wait for each other, and returns the account that the person chose last. An account is
// locked after its person.
func lock(ctx context.Context, q *accountsdb.Queries, person Person) ([]Membership, error) {
	if err := q.LockPerson(ctx, person.Name()); err != nil {
		return nil, fmt.Errorf("lock person: %w", err)
	}
	return memberships(ctx, q, person, 1)
}

// CreatePersonal gives a person without an account one of its own, or a [*NoAccountError] where persons get none. A person who has one gets a
// [*ConflictError]. tx is the transaction that moves the session.
func (s *Store) CreatePersonal(ctx context.Context, tx pgx.Tx, person Person) (uuid.UUID, error) {
	q := s.queries.WithTx(tx)
	known, err := lock(ctx, q, person)
	if err != nil {
		return uuid.Nil, err
	}
	if len(known) > 0 {
		return uuid.Nil, &ConflictError{Detail: "You are a member of an account already."}
	}
	return s.createPersonal(ctx, q, tx, person)
}

// createPersonal makes the person the owner of an account: of the newest one that the person created and left as its last member,
// else of a new one. So a person that leaves gets no second limit of keys.
func (s *Store) createPersonal(ctx context.Context, q *accountsdb.Queries, tx pgx.Tx, person Person) (uuid.UUID, error) {
	if !s.personal {
		return uuid.Nil, &NoAccountError{}
	}
	created, err := q.AccountsCreatedBy(ctx, accountsdb.AccountsCreatedByParams{Issuer: person.Issuer, Subject: person.Subject, Page: MaxCreated})
	if err != nil {
		return uuid.Nil, fmt.Errorf("read created accounts: %w", err)
	}
	member := Member{ID: uuid.Must(uuid.NewV7()), Person: person, Role: Owner, CreatedBy: person.Name()}
	entry := audit.Entry{Action: audit.MemberAdd, Target: member.ID.String(), Detail: map[string]any{"role": Owner}}
	var id uuid.UUID
	switch vacant := find(created, func(a *accountsdb.AccountsCreatedByRow) bool { return a.Vacant }); {
	case vacant != nil:
		id = vacant.ID
	case len(created) == MaxCreated:
		return uuid.Nil, &NoAccountError{}
	default:
		entry.Action, entry.Detail = audit.AccountCreate, nil
		if id, err = addPersonal(ctx, q, person); err != nil {
			return uuid.Nil, fmt.Errorf("add account: %w", err)
		}
	}
	return id, s.changeIn(ctx, tx, id, func(q *accountsdb.Queries, people *People) (audit.Entry, error) {
		if len(people.Members) > 0 {
			return entry, &ConflictError{Detail: "Another person became a member of your account at the same time: sign in again."}
		}
		return entry, s.addMember(ctx, q, people, member)
	})
}

// Memberships returns the accounts of a person, at most [MaxAccounts], the last that the person chose first.
func (s *Store) Memberships(ctx context.Context, person Person) ([]Membership, error) {
	return memberships(ctx, s.queries, person, MaxAccounts)
}

func memberships(ctx context.Context, q *accountsdb.Queries, person Person, most int32) ([]Membership, error) {
	rows, err := q.MembershipsOf(ctx, accountsdb.MembershipsOfParams{Issuer: person.Issuer, Subject: person.Subject, Page: most})
	if err != nil {
		return nil, fmt.Errorf("read memberships: %w", err)
	}
	found := make([]Membership, len(rows))
	for i, row := range rows {
		found[i] = Membership{Account: row.AccountID, Name: row.Account, Role: Role(row.Role)}
	}
	return found, nil
}

// Choose notes that a person works in an account from now on. It returns a [*NotFoundError] unless the person is a member. tx is the
// transaction that moves the session.
func (s *Store) Choose(ctx context.Context, tx pgx.Tx, person Person, account uuid.UUID) error {
	chosen, err := s.queries.WithTx(tx).ChooseMembership(ctx, accountsdb.ChooseMembershipParams{
		AccountID: account, Issuer: person.Issuer, Subject: person.Subject, Now: s.now(),
	})
	if err != nil {
		return fmt.Errorf("choose account: %w", err)
	}
	if chosen == 0 {
		return &NotFoundError{}
	}
	return nil
}

// Offers returns the open invitations of a person's address, the oldest first.
func (s *Store) Offers(ctx context.Context, person Person) ([]Offer, error) {
	return s.offers(ctx, s.queries, person)
}

func (s *Store) offers(ctx context.Context, q *accountsdb.Queries, person Person) ([]Offer, error) {
	email, err := foldEmail(person.Email)
	if err != nil {
		return nil, nil //nolint:nilerr // no invitation names such an address, or none
	}
	rows, err := q.InvitationsFor(ctx, accountsdb.InvitationsForParams{Email: email, Now: s.now(), Page: maxOffers})
	if err != nil {
		return nil, fmt.Errorf("read invitations: %w", err)
	}
	found := make([]Offer, len(rows))
	for i, row := range rows {
		found[i] = Offer{row.ID, row.Account, Role(row.Role), cmp.Or(row.Inviter, Creator(row.CreatedBy)), row.CreatedAt, row.ExpiresAt}
	}
	return found, nil
}

// Accept makes a person a member of the account that an open invitation of the person's address names, and returns the account. It
// returns a [*NotFoundError] if there is no such invitation, and a [*ConflictError] if the person is a member already, or of [MaxAccounts].
// tx is the transaction that moves the session.
func (s *Store) Accept(ctx context.Context, tx pgx.Tx, person Person, invitation uuid.UUID) (account uuid.UUID, err error) {
	if _, err := lock(ctx, s.queries.WithTx(tx), person); err != nil {
		return account, err
	}
	err = s.answer(ctx, tx, person, invitation, func(q *accountsdb.Queries, people *People, offered Invitation) (audit.Entry, error) {
		account = people.account
		member := Member{ID: uuid.Must(uuid.NewV7()), Person: person, Role: offered.Role, CreatedBy: offered.CreatedBy}
		detail := map[string]any{"member": member.ID, "role": offered.Role}
		return audit.Entry{Action: audit.InvitationAccept, Detail: detail}, s.addMember(ctx, q, people, member)
	})
	return account, err
}

// Decline ends an open invitation of a person's address, or returns a [*NotFoundError].
func (s *Store) Decline(ctx context.Context, person Person, invitation uuid.UUID) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		return s.answer(ctx, tx, person, invitation, func(*accountsdb.Queries, *People, Invitation) (audit.Entry, error) {
			return audit.Entry{Action: audit.InvitationDecline}, nil
		})
	})
}

// answer ends an invitation of the person's address as do says.
func (s *Store) answer(
	ctx context.Context, tx pgx.Tx, person Person, id uuid.UUID, do func(*accountsdb.Queries, *People, Invitation) (audit.Entry, error),
) error {
	email, err := foldEmail(person.Email)
	if err != nil {
		return &NotFoundError{} // no invitation names such an address, or none
	}
	account, err := s.queries.WithTx(tx).InvitationFor(ctx, accountsdb.InvitationForParams{ID: id, Email: email, Now: s.now()})
	if errors.Is(err, pgx.ErrNoRows) {
		return &NotFoundError{}
	}
	if err != nil {
		return fmt.Errorf("read invitation: %w", err)
	}
	return s.changeIn(ctx, tx, account, func(q *accountsdb.Queries, people *People) (audit.Entry, error) {
		offered := people.invitation(id) // it may have ended since
		if offered == nil || offered.Email != email {
			return audit.Entry{}, &NotFoundError{}
		}
		entry, err := do(q, people, *offered)
		if err != nil {
			return entry, err
		}
		entry.Target = id.String()
		return entry, q.DeleteInvitations(ctx, []uuid.UUID{id})
	})
}

// addMember adds a member, or returns a [*ConflictError]. Only a caller that has also locked the person cannot exceed [MaxAccounts].
func (s *Store) addMember(ctx context.Context, q *accountsdb.Queries, people *People, member Member) error {
	switch {
	case people.member(member.Person) != nil:
		return &ConflictError{Detail: "The person is a member of this account already."}
	case len(people.Members) == 0 && member.Role != Owner:
		return errFirstIsOwner
	}
	added, err := q.InsertMember(ctx, accountsdb.InsertMemberParams{
		ID: member.ID, AccountID: people.account, Issuer: member.Issuer, Subject: member.Subject, Email: member.Email, Role: string(member.Role),
		CreatedBy: member.CreatedBy, Now: s.now(), Most: MaxAccounts,
	})
	if err != nil {
		return fmt.Errorf("add member: %w", err)
	}
	if added == 0 {
		return &ConflictError{Detail: fmt.Sprintf("A person can be a member of at most %d accounts: leave one first.", MaxAccounts)}
	}
	return nil
}
