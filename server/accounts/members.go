package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/accountsdb"
)

const (
	// MaxPeople is the maximum of members and open invitations of an account.
	MaxPeople = 100
	// invitationLife is how long an invitation can be accepted.
	invitationLife = 14 * 24 * time.Hour
)

// People are the members and open invitations of an account, the oldest first.
type People struct {
	Members     []Member
	Invitations []Invitation

	account uuid.UUID
	ended   []uuid.UUID // invitations that have expired
}

// People returns the members and invitations of an account.
func (s *Store) People(ctx context.Context, account uuid.UUID) (*People, error) {
	return s.people(ctx, s.queries, account)
}

func (s *Store) people(ctx context.Context, q *accountsdb.Queries, account uuid.UUID) (*People, error) {
	found := &People{account: account}
	members, err := q.Members(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	for _, row := range members {
		found.Members = append(found.Members, Member{
			ID: row.ID, Person: Person{Issuer: row.Issuer, Subject: row.Subject, Email: row.Email}, Role: Role(row.Role),
			CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy,
		})
	}
	invitations, err := q.InvitationsOf(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("read invitations: %w", err)
	}
	for _, row := range invitations {
		if !row.ExpiresAt.After(s.now()) {
			found.ended = append(found.ended, row.ID)
			continue
		}
		found.Invitations = append(found.Invitations, Invitation{
			ID: row.ID, Email: row.Email, Role: Role(row.Role), CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy, ExpiresAt: row.ExpiresAt,
		})
	}
	return found, nil
}

// Invite offers a role to an address for 14 days, in place of an invitation that the address has. Only an owner invites.
func (s *Store) Invite(ctx context.Context, account uuid.UUID, by Person, email string, role Role) (invited Invitation, err error) {
	err = s.changeAs(ctx, account, by, Owner, func(q *accountsdb.Queries, people *People, _ *Member) (entry audit.Entry, err error) {
		invited, entry, err = s.invite(ctx, q, people, by.Name(), email, role)
		return entry, err
	})
	return invited, err
}

func (s *Store) invite(
	ctx context.Context, q *accountsdb.Queries, people *People, by, email string, role Role,
) (invited Invitation, entry audit.Entry, err error) {
	if email, err = foldEmail(email); err != nil {
		return invited, entry, err
	}
	if err := checkRole(role); err != nil {
		return invited, entry, err
	}
	if len(people.Members) == 0 && role != Owner {
		return invited, entry, errFirstIsOwner
	}
	ended, open := people.ended, 0
	for _, known := range people.Invitations {
		if known.Email == email {
			ended = append(ended, known.ID)
		} else {
			open++
		}
	}
	if len(people.Members)+open >= MaxPeople {
		return invited, entry, &LimitError{}
	}
	if err := q.DeleteInvitations(ctx, ended); err != nil {
		return invited, entry, fmt.Errorf("delete invitations: %w", err)
	}
	now := s.now().UTC().Truncate(time.Microsecond) // as PostgreSQL keeps it
	invited = Invitation{
		ID: uuid.Must(uuid.NewV7()), Email: email, Role: role, CreatedAt: now, CreatedBy: by, ExpiresAt: now.Add(invitationLife),
	}
	err = q.InsertInvitation(ctx, accountsdb.InsertInvitationParams{
		ID: invited.ID, AccountID: people.account, Email: email, Role: string(role), Now: now, CreatedBy: by, ExpiresAt: invited.ExpiresAt,
	})
	if err != nil {
		return invited, entry, fmt.Errorf("add invitation: %w", err)
	}
	entry = audit.Entry{Action: audit.InvitationCreate, Target: invited.ID.String(), Detail: map[string]any{"role": role}}
	return invited, entry, nil
}

// SetRole gives a member another role. Only an owner does it. A [*ConflictError] reports that the account would have no owner.
func (s *Store) SetRole(ctx context.Context, account uuid.UUID, by Person, id uuid.UUID, role Role) (changed Member, err error) {
	if err := checkRole(role); err != nil {
		return changed, err
	}
	err = s.changeAs(ctx, account, by, Owner, func(q *accountsdb.Queries, people *People, _ *Member) (audit.Entry, error) {
		member := people.byID(id)
		if member == nil {
			return audit.Entry{}, &NotFoundError{}
		}
		was := member.Role
		member.Role = role
		changed = *member
		if err := people.checkOwner(); err != nil {
			return audit.Entry{}, err
		}
		if err := q.DeleteInvitations(ctx, people.invitedBy(*member)); err != nil {
			return audit.Entry{}, fmt.Errorf("delete invitations: %w", err)
		}
		detail := map[string]any{"role": role, "was": was}
		return audit.Entry{Action: audit.MemberUpdate, Target: id.String(), Detail: detail},
			q.SetRole(ctx, accountsdb.SetRoleParams{ID: id, Role: string(role)})
	})
	return changed, err
}

// Remove ends a membership, with the person's sessions in the account, or an invitation. An owner can remove every member, another member
// only itself. A [*ConflictError] reports that the other members would have no owner.
func (s *Store) Remove(ctx context.Context, account uuid.UUID, by Person, id uuid.UUID) error {
	return s.changeAs(ctx, account, by, Viewer, func(q *accountsdb.Queries, people *People, actor *Member) (audit.Entry, error) {
		if actor.Role != Owner && actor.ID != id {
			return audit.Entry{}, &ForbiddenError{}
		}
		return remove(ctx, q, people, id, actor.ID == id)
	})
}

// remove ends a membership or an invitation. leaves: the member itself does it.
func remove(ctx context.Context, q *accountsdb.Queries, people *People, id uuid.UUID, leaves bool) (audit.Entry, error) {
	if people.invitation(id) != nil {
		return audit.Entry{Action: audit.InvitationWithdraw, Target: id.String()}, q.DeleteInvitations(ctx, []uuid.UUID{id})
	}
	member := people.byID(id)
	if member == nil {
		return audit.Entry{}, &NotFoundError{}
	}
	gone := *member
	gone.Role, member.Role = "", ""
	if err := people.checkOwner(); err != nil {
		return audit.Entry{}, err
	}
	if err := q.DeleteInvitations(ctx, people.invitedBy(gone)); err != nil {
		return audit.Entry{}, fmt.Errorf("delete invitations: %w", err)
	}
	return audit.Entry{Action: audit.MemberRemove, Target: id.String()},
		q.DeleteMember(ctx, accountsdb.DeleteMemberParams{ID: id, Leaves: leaves})
}

// edit changes the members or invitations of a locked account, and returns the record of that.
type edit func(*accountsdb.Queries, *People) (audit.Entry, error)

// changeAs runs do as a member whose role covers needed.
func (s *Store) changeAs(
	ctx context.Context, account uuid.UUID, by Person, needed Role,
	do func(q *accountsdb.Queries, people *People, actor *Member) (audit.Entry, error),
) error {
	return s.change(ctx, account, func(q *accountsdb.Queries, people *People) (audit.Entry, error) {
		actor := people.member(by)
		if actor == nil || !actor.Role.Covers(needed) {
			return audit.Entry{}, &ForbiddenError{}
		}
		return do(q, people, actor)
	})
}

// change runs do with the account's row locked, so changes of one account wait for each other, and records the change.
func (s *Store) change(ctx context.Context, account uuid.UUID, do edit) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return s.changeIn(ctx, tx, account, do) })
}

// changeIn is change in a transaction.
func (s *Store) changeIn(ctx context.Context, tx pgx.Tx, account uuid.UUID, do edit) error {
	q := s.queries.WithTx(tx)
	if _, err := q.LockAccount(ctx, account); errors.Is(err, pgx.ErrNoRows) {
		return &NotFoundError{}
	} else if err != nil {
		return fmt.Errorf("lock account: %w", err)
	}
	people, err := s.people(ctx, q, account)
	if err != nil {
		return err
	}
	entry, err := do(q, people)
	if err != nil {
		return err
	}
	entry.Account = account
	return audit.Record(ctx, tx, entry)
}

// member returns the membership of a person, nil for none.
func (p *People) member(person Person) *Member {
	return find(p.Members, func(m *Member) bool { return m.Issuer == person.Issuer && m.Subject == person.Subject })
}

func (p *People) byID(id uuid.UUID) *Member {
	return find(p.Members, func(m *Member) bool { return m.ID == id })
}

func (p *People) invitation(id uuid.UUID) *Invitation {
	return find(p.Invitations, func(i *Invitation) bool { return i.ID == id })
}

// find returns the first element that matches, nil for none.
func find[E any](list []E, matches func(*E) bool) *E {
	for i := range list {
		if matches(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// invitedBy returns the member's invitations, which end if the member is not an owner now.
func (p *People) invitedBy(member Member) (ids []uuid.UUID) {
	for _, invitation := range p.Invitations {
		if invitation.CreatedBy == member.Name() && member.Role != Owner {
			ids = append(ids, invitation.ID)
		}
	}
	return ids
}

// checkOwner returns a [*ConflictError] if there are members and no owner. A member without a role has left.
func (p *People) checkOwner() error {
	left := slices.ContainsFunc(p.Members, func(m Member) bool { return m.Role != "" })
	if left && !slices.ContainsFunc(p.Members, func(m Member) bool { return m.Role == Owner }) {
		return &ConflictError{Detail: "The account would have no owner: make another member an owner first."}
	}
	return nil
}

var errFirstIsOwner = &ConflictError{Detail: "The first member of an account is an owner."}
