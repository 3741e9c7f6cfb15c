package developer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/sessions"
)

// SignIn leads a developer through the OpenID Connect provider, and out again; *sessions.SignIn implements it.
type SignIn interface {
	Begin(ctx context.Context) (address, token string, err error)
	Complete(ctx context.Context, token string, back sessions.Callback) (string, error)
	SignOut(ctx context.Context, token string, session sessions.Session) error
	SignOutEverywhere(ctx context.Context, session sessions.Session) error
}

// signInHandlers have the routes of signing in and out.
type signInHandlers struct {
	signIn   SignIn
	sessions Sessions
	lifetime time.Duration
	logger   *slog.Logger
}

// sessionPath is where a signed-in developer lands.
const sessionPath = "/v1/developer/session"

func (h *signInHandlers) routes() []endpoint.Route {
	const get = fasthttp.MethodGet
	return []endpoint.Route{
		{Method: get, Path: "/", Operation: "openConsole", Access: endpoint.Open, Handle: openConsole},
		{Method: get, Path: "/v1/developer/sign-in", Operation: "beginSignIn", Access: endpoint.Open, Needs: endpoint.Time, Handle: h.begin},
		{Method: get, Path: "/v1/developer/callback", Operation: "completeSignIn", Access: endpoint.Open, Needs: endpoint.Time, Handle: h.complete},
		session(get, sessionPath, "getSession", endpoint.Time, h.get),
		session(fasthttp.MethodDelete, sessionPath, "deleteSession", endpoint.Time, h.signOut),
	}
}

// openConsole sends a browser from the bare address to the sign-in.
func openConsole(_ context.Context, r *endpoint.Request) error {
	r.Redirect("/v1/developer/sign-in")
	return nil
}

// begin sends the browser to the provider.
func (h *signInHandlers) begin(ctx context.Context, r *endpoint.Request) error {
	address, token, err := h.signIn.Begin(ctx)
	if err != nil {
		return err
	}
	setCookie(r.HTTP, signInCookie, token, sessions.SignInTimeout)
	r.Redirect(address)
	return nil
}

// complete takes what the provider sent back: the parameters of RFC 6749 §4.1.2 and RFC 9207.
func (h *signInHandlers) complete(ctx context.Context, r *endpoint.Request) error {
	var back sessions.Callback
	query := r.Query()
	query.Text("state", &back.State, 128)
	query.Text("code", &back.Code, 4096)
	query.Text("iss", &back.Issuer, 1024)
	query.Text("error", &back.Error, 128)
	if err := query.Check(); err != nil {
		return err
	}
	token, err := h.signIn.Complete(withActor(ctx, r, ""), r.Cookie(signInCookie), back)
	if err != nil {
		h.logFailure(ctx, r, err)
		return err
	}
	// A session that this browser had before, perhaps not its own, ends.
	if err := h.sessions.End(ctx, r.Cookie(SessionCookie)); err != nil {
		h.logger.WarnContext(ctx, "the session before a sign-in was not ended", "request_id", string(r.ID), "error", err)
	}
	setCookie(r.HTTP, signInCookie, "", 0)
	setCookie(r.HTTP, SessionCookie, token, h.lifetime)
	noReferrer(r.HTTP)
	r.Redirect(sessionPath)
	return nil
}

// logFailure logs why a sign-in did not succeed.
func (h *signInHandlers) logFailure(ctx context.Context, r *endpoint.Request, err error) {
	if away, ok := errors.AsType[*sessions.ProviderError](err); ok {
		h.logger.WarnContext(ctx, "sign-in failed at the provider", "request_id", string(r.ID), "code", away.Code)
	}
	if refused, ok := errors.AsType[*sessions.RefusedError](err); ok {
		h.logger.InfoContext(ctx, "sign-in refused", "request_id", string(r.ID), "reason", refused.Reason)
		noReferrer(r.HTTP)
	}
}

// noReferrer keeps the callback's address, which has a code, from the next page.
func noReferrer(ctx *fasthttp.RequestCtx) { ctx.Response.Header.Set("Referrer-Policy", "no-referrer") }

// get tells who is signed in.
func (h *signInHandlers) get(_ context.Context, r *endpoint.Request) error {
	return r.Value(fasthttp.StatusOK, struct {
		Account   string    `json:"account"`
		Email     string    `json:"email,omitempty"`
		CreatedAt time.Time `json:"created_at"`
	}{r.Session.Account, r.Session.Email, r.Session.CreatedAt})
}

// signOut ends the session; with ?everywhere=true every session of the account.
func (h *signInHandlers) signOut(ctx context.Context, r *endpoint.Request) error {
	query := r.Query()
	everywhere := query.Match("everywhere", "must be true or false", func(value string) bool { return value == "true" || value == "false" })
	err := query.Check()
	switch {
	case err != nil:
	case everywhere == "true":
		err = h.signIn.SignOutEverywhere(ctx, r.Session)
	default:
		err = h.signIn.SignOut(ctx, r.Cookie(SessionCookie), r.Session)
	}
	if err == nil {
		setCookie(r.HTTP, SessionCookie, "", 0)
	}
	return r.NoContent(err)
}
