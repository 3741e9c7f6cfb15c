package developer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
)

// Accounts is what persons do with accounts; *accounts.Store is one.
type Accounts interface {
	Memberships(ctx context.Context, person accounts.Person) ([]accounts.Membership, error)
	Offers(ctx context.Context, person accounts.Person) ([]accounts.Offer, error)
	Decline(ctx context.Context, person accounts.Person, invitation uuid.UUID) error
	People(ctx context.Context, account uuid.UUID) (*accounts.People, error)
	Invite(ctx context.Context, account uuid.UUID, by accounts.Person, email string, role accounts.Role) (accounts.Invitation, error)
	SetRole(ctx context.Context, account uuid.UUID, by accounts.Person, id uuid.UUID, role accounts.Role) (accounts.Member, error)
	Remove(ctx context.Context, account uuid.UUID, by accounts.Person, id uuid.UUID) error
}

// memberHandlers answer what concerns the members of the session's account.
type memberHandlers struct{ store Accounts }

func (h *memberHandlers) routes() []endpoint.Route {
	const all, one = "/v1/developer/members", "/v1/developer/members/{member_id}"
	return append(
		roleFor(accounts.Viewer,
			session(fasthttp.MethodGet, all, "listMembers", endpoint.Time, h.list),
			session(fasthttp.MethodDelete, one, "removeMember", endpoint.Time, h.remove), // a member of any role can leave
		),
		roleFor(accounts.Owner,
			session(fasthttp.MethodPost, all, "inviteMember", endpoint.Body, h.invite),
			session(fasthttp.MethodPatch, one, "updateMember", endpoint.Body, h.update),
		)...)
}

type shownMember struct {
	ID        uuid.UUID     `json:"id"`
	Person    string        `json:"person"`
	Email     string        `json:"email,omitempty"`
	Role      accounts.Role `json:"role"`
	CreatedAt time.Time     `json:"created_at"`
	CreatedBy string        `json:"created_by"`
}

func shownMemberOf(m accounts.Member) shownMember {
	return shownMember{m.ID, m.Name(), m.Email, m.Role, m.CreatedAt, accounts.Creator(m.CreatedBy)}
}

func readRole(body *codec.Fields) accounts.Role {
	var role string
	body.OneOf("role", &role, string(accounts.Owner), string(accounts.Developer), string(accounts.Viewer))
	return accounts.Role(role)
}

type shownInvitation struct {
	ID        uuid.UUID     `json:"id"`
	Email     string        `json:"email"`
	Role      accounts.Role `json:"role"`
	CreatedAt time.Time     `json:"created_at"`
	CreatedBy string        `json:"created_by"`
	ExpiresAt time.Time     `json:"expires_at"`
}

func shownInvitationOf(i accounts.Invitation) shownInvitation {
	i.CreatedBy = accounts.Creator(i.CreatedBy)
	return shownInvitation(i)
}

func (h *memberHandlers) list(ctx context.Context, r *endpoint.Request) error {
	people, err := h.store.People(ctx, r.Session.AccountID)
	if err != nil {
		return err
	}
	return r.OK(struct {
		Members     []shownMember     `json:"members"`
		Invitations []shownInvitation `json:"invitations"`
	}{mapped(people.Members, shownMemberOf), mapped(people.Invitations, shownInvitationOf)}, nil)
}

func (h *memberHandlers) invite(ctx context.Context, r *endpoint.Request) error {
	var email string
	body := r.JSON()
	body.Text("email", &email, 1, accounts.MaxEmail)
	role := readRole(body)
	if err := body.Check("email", "role"); err != nil {
		return err
	}
	invited, err := h.store.Invite(ctx, r.Session.AccountID, r.Session.Person, email, role)
	return r.Send(fasthttp.StatusCreated, shownInvitationOf(invited), err)
}

func (h *memberHandlers) update(ctx context.Context, r *endpoint.Request) error {
	body := r.JSON()
	role := readRole(body)
	if err := body.Check("role"); err != nil {
		return err
	}
	id, err := r.UUID("member_id")
	if err != nil {
		return err
	}
	changed, err := h.store.SetRole(ctx, r.Session.AccountID, r.Session.Person, id, role)
	return r.OK(shownMemberOf(changed), err)
}

// remove ends a membership or an invitation.
func (h *memberHandlers) remove(ctx context.Context, r *endpoint.Request) error {
	id, err := r.UUID("member_id")
	if err != nil {
		return err
	}
	return r.NoContent(h.store.Remove(ctx, r.Session.AccountID, r.Session.Person, id))
}
