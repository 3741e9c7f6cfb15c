package accounts

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/accountsdb"
)

// Administration is what an administrator does with accounts, by their names. It checks no role.
type Administration struct{ store *Store }

// NewAdministration returns the administration of the accounts in db. now is the clock of invitations.
func NewAdministration(db *pgxpool.Pool, now func() time.Time) *Administration {
	return &Administration{NewStore(db, false, now)}
}

// Account is an account as an administrator sees it.
type Account struct {
	ID                   uuid.UUID
	Name                 string
	CreatedAt            time.Time
	KeyLimit             int // how many active keys its members can create
	Members, Invitations int
}

// listPage is how many accounts All reads at once.
const listPage = 1000

// All returns all accounts in the order of their names. It reads them in pages, so its memory does not depend on their number. It ends
// after an error.
func (a *Administration) All(ctx context.Context) iter.Seq2[Account, error] {
	return func(yield func(Account, error) bool) {
		for after := ""; ; {
			rows, err := a.store.queries.PageOfAccounts(ctx, accountsdb.PageOfAccountsParams{Now: a.store.now(), After: after, Page: listPage})
			if err != nil {
				yield(Account{}, fmt.Errorf("list accounts: %w", err))
				return
			}
			for _, row := range rows {
				account := Account{row.ID, row.Name, row.CreatedAt, int(row.KeyLimit), int(row.Members), int(row.Invitations)}
				if !yield(account, nil) {
					return
				}
			}
			if len(rows) < listPage {
				return
			}
			after = rows[len(rows)-1].Name
		}
	}
}

// Ensure returns the id of the account of that name, and creates it if there is none.
func (a *Administration) Ensure(ctx context.Context, name string) (uuid.UUID, error) {
	return Ensure(ctx, a.store.db, name)
}

// People returns the members and invitations of an account, or an [*UnknownError].
func (a *Administration) People(ctx context.Context, account string) (*People, error) {
	id, err := named(ctx, a.store.queries, account)
	if err != nil {
		return nil, err
	}
	return a.store.People(ctx, id)
}

// Invite is [Store.Invite] by an administrator.
func (a *Administration) Invite(ctx context.Context, account, email string, role Role) (invited Invitation, err error) {
	err = a.change(ctx, account, func(q *accountsdb.Queries, people *People) (entry audit.Entry, err error) {
		invited, entry, err = a.store.invite(ctx, q, people, administrator(ctx), email, role)
		return entry, err
	})
	return invited, err
}

// Add makes a person a member at once. It returns a [*ConflictError] if the person is one already, or would be the first and no owner.
func (a *Administration) Add(ctx context.Context, account string, person Person, role Role) (added Member, err error) {
	if err := checkRole(role); err != nil {
		return added, err
	}
	if person.Issuer == "" || person.Subject == "" {
		return added, &InvalidError{Field: "subject", Detail: "must be ISSUER#SUBJECT, as the provider knows the person"}
	}
	err = a.change(ctx, account, func(q *accountsdb.Queries, people *People) (audit.Entry, error) {
		if len(people.Members)+len(people.Invitations) >= MaxPeople {
			return audit.Entry{}, &LimitError{}
		}
		added = Member{
			ID: uuid.Must(uuid.NewV7()), Person: person, Role: role, CreatedAt: a.store.now().UTC(), CreatedBy: administrator(ctx),
		}
		return audit.Entry{Action: audit.MemberAdd, Target: added.ID.String(), Detail: map[string]any{"role": role}},
			a.store.addMember(ctx, q, people, added)
	})
	return added, err
}

// Remove is [Store.Remove] by an administrator.
func (a *Administration) Remove(ctx context.Context, account string, id uuid.UUID) error {
	return a.change(ctx, account, func(q *accountsdb.Queries, people *People) (audit.Entry, error) {
		return remove(ctx, q, people, id, false)
	})
}

// LimitKeys sets how many active keys the members of an account can create. Keys that exist remain.
func (a *Administration) LimitKeys(ctx context.Context, account string, most int) error {
	if most < 0 || most > math.MaxInt32 {
		return &InvalidError{Field: "limit", Detail: fmt.Sprintf("must be 0 to %d", math.MaxInt32)}
	}
	return a.change(ctx, account, func(q *accountsdb.Queries, people *People) (audit.Entry, error) {
		return audit.Entry{Action: audit.AccountLimit, Detail: map[string]any{"keys": most}},
			q.SetKeyLimit(ctx, accountsdb.SetKeyLimitParams{ID: people.account, KeyLimit: int32(most)})
	})
}

func (a *Administration) change(ctx context.Context, account string, do edit) error {
	id, err := named(ctx, a.store.queries, account)
	if err != nil {
		return err
	}
	return a.store.change(ctx, id, do)
}

// administrator returns the name of the administrator that acts.
func administrator(ctx context.Context) string {
	if actor, known := audit.ActorOf(ctx); known {
		return actor.Name
	}
	return string(audit.Administrator)
}
