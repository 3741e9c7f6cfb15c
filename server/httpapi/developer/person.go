package developer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/sessions"
)

// personHandlers answer what concerns a signed-in person, in whatever account the person works.
type personHandlers struct {
	signIn   SignIn
	sessions Sessions
	accounts Accounts
}

func (h *personHandlers) routes() []endpoint.Route {
	const get, remove, waits = fasthttp.MethodGet, fasthttp.MethodDelete, endpoint.Time
	const invitation = "/v1/developer/invitations/{invitation_id}"
	return []endpoint.Route{
		session(get, sessionPath, "getSession", waits, h.getSession),
		session(remove, sessionPath, "deleteSession", waits, h.signOut),
		session(fasthttp.MethodPut, sessionPath+"/account", "chooseAccount", endpoint.Body, h.choose),
		session(get, "/v1/developer/sessions", "listSessions", waits, h.listSessions),
		session(remove, "/v1/developer/sessions", "deleteSessions", waits, h.signOutEverywhere),
		session(get, "/v1/developer/accounts", "listAccounts", waits, h.listAccounts),
		session(get, "/v1/developer/invitations", "listInvitations", waits, h.listInvitations),
		session(fasthttp.MethodPost, invitation+"/accept", "acceptInvitation", waits, h.accept),
		session(remove, invitation, "declineInvitation", waits, h.decline),
	}
}

// shownMembership is an account of the person. A person who works in none has no account.
type shownMembership struct {
	AccountID string        `json:"account_id,omitempty"`
	Account   string        `json:"account,omitempty"`
	Role      accounts.Role `json:"role,omitempty"`
}

type shownSession struct {
	shownMembership
	Person    string    `json:"person"`
	Email     string    `json:"email,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

func shown(session sessions.Session) shownSession {
	answer := shownSession{Person: session.Name(), Email: session.Email, CreatedAt: session.CreatedAt}
	if session.Role != "" {
		answer.shownMembership = shownMembership{session.AccountID.String(), session.Account, session.Role}
	}
	return answer
}

func (h *personHandlers) getSession(_ context.Context, r *endpoint.Request) error {
	return r.OK(shown(r.Session), nil)
}

func (h *personHandlers) signOut(ctx context.Context, r *endpoint.Request) error {
	return signedOut(r, h.signIn.SignOut(ctx, r.Cookie(SessionCookie), r.Session))
}

func (h *personHandlers) signOutEverywhere(ctx context.Context, r *endpoint.Request) error {
	return signedOut(r, h.signIn.SignOutEverywhere(ctx, r.Session))
}

// signedOut removes the cookie of a session that has ended.
func signedOut(r *endpoint.Request, err error) error {
	if err == nil {
		setCookie(r.HTTP, SessionCookie, "", 0)
	}
	return r.NoContent(err)
}

// choose moves the session to another account of the person. A person without an account, who names none, gets one.
func (h *personHandlers) choose(ctx context.Context, r *endpoint.Request) error {
	body := r.JSON()
	account := readID(body, "account_id")
	if err := body.Check(); err != nil {
		return err
	}
	if !account.Valid {
		moved, err := h.signIn.CreatePersonal(ctx, r.Cookie(SessionCookie), r.Session)
		return r.OK(shown(moved), err)
	}
	moved, err := h.signIn.Choose(ctx, r.Cookie(SessionCookie), r.Session, account.UUID)
	return r.OK(shown(moved), err)
}

type shownListedSession struct {
	Account    string    `json:"account,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	Current    bool      `json:"current"`
}

func (h *personHandlers) listSessions(ctx context.Context, r *endpoint.Request) error {
	listed, err := h.sessions.List(ctx, r.Cookie(SessionCookie), r.Session)
	return r.OK(struct {
		Sessions []shownListedSession `json:"sessions"`
	}{mapped(listed, func(s sessions.Listed) shownListedSession { return shownListedSession(s) })}, err)
}

func (h *personHandlers) listAccounts(ctx context.Context, r *endpoint.Request) error {
	found, err := h.accounts.Memberships(ctx, r.Session.Person)
	return r.OK(struct {
		Accounts []shownMembership `json:"accounts"`
	}{mapped(found, func(m accounts.Membership) shownMembership {
		return shownMembership{m.Account.String(), m.Name, m.Role}
	})}, err)
}

type shownOffer struct {
	ID        uuid.UUID     `json:"id"`
	Account   string        `json:"account"`
	Role      accounts.Role `json:"role"`
	Inviter   string        `json:"inviter"`
	CreatedAt time.Time     `json:"created_at"`
	ExpiresAt time.Time     `json:"expires_at"`
}

func (h *personHandlers) listInvitations(ctx context.Context, r *endpoint.Request) error {
	offers, err := h.accounts.Offers(ctx, r.Session.Person)
	return r.OK(struct {
		Invitations []shownOffer `json:"invitations"`
	}{mapped(offers, func(o accounts.Offer) shownOffer { return shownOffer(o) })}, err)
}

// accept makes the person a member, and moves the session to the account.
func (h *personHandlers) accept(ctx context.Context, r *endpoint.Request) error {
	id, err := r.UUID("invitation_id")
	if err != nil {
		return err
	}
	moved, err := h.signIn.Accept(ctx, r.Cookie(SessionCookie), r.Session, id)
	return r.OK(shown(moved), err)
}

func (h *personHandlers) decline(ctx context.Context, r *endpoint.Request) error {
	id, err := r.UUID("invitation_id")
	if err != nil {
		return err
	}
	return r.NoContent(h.accounts.Decline(ctx, r.Session.Person, id))
}
