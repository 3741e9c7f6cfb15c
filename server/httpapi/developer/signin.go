package developer

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/sessions"
)

// SignIn leads a developer through the OpenID Connect provider, and out again; *sessions.SignIn implements it.
type SignIn interface {
	// Begin keeps returnTo in the sign-in's cookie, and Complete returns it.
	Begin(ctx context.Context, returnTo string) (address, cookie string, err error)
	Complete(ctx context.Context, cookie string, back sessions.Callback) (sessions.SignedIn, error)
	// Choose moves a session to another account of its person. Accept and CreatePersonal also make the person a member. They return
	// the session as it is then.
	Choose(ctx context.Context, token string, session sessions.Session, account uuid.UUID) (sessions.Session, error)
	Accept(ctx context.Context, token string, session sessions.Session, invitation uuid.UUID) (sessions.Session, error)
	CreatePersonal(ctx context.Context, token string, session sessions.Session) (sessions.Session, error)
	SignOut(ctx context.Context, token string, session sessions.Session) error
	SignOutEverywhere(ctx context.Context, session sessions.Session) error
}

type signInHandlers struct {
	signIn   SignIn
	sessions Sessions
	lifetime time.Duration
	logger   *slog.Logger
}

const (
	signInPath = "/v1/developer/sign-in"
	// returnToParameter names the page of the console that a sign-in leads to.
	returnToParameter = "return_to"
	sessionPath       = "/v1/developer/session"
)

func (h *signInHandlers) routes() []endpoint.Route {
	const get, open, waits = fasthttp.MethodGet, endpoint.Open, endpoint.Time
	return []endpoint.Route{
		{Method: get, Path: signInPath, Operation: "beginSignIn", Access: open, Needs: waits, Handle: navigation(h.begin)},
		{
			Method: get, Path: "/v1/developer/callback", Operation: "completeSignIn", Access: open, Needs: waits,
			Handle: navigation(h.complete),
		},
	}
}

func (h *signInHandlers) begin(ctx context.Context, r *endpoint.Request) error {
	target, query := "", r.Query()
	query.Text(returnToParameter, &target, 0, maxReturnTo)
	if query.Check() != nil {
		target = "" // a link that is wrong leads to the first page
	}
	address, cookie, err := h.signIn.Begin(ctx, returnTo(target))
	if err != nil {
		return err
	}
	setCookie(r.HTTP, signInCookie, cookie, sessions.SignInTimeout)
	r.Redirect(address)
	return nil
}

// complete takes what the provider sent back: the parameters of RFC 6749 §4.1.2 and RFC 9207.
func (h *signInHandlers) complete(ctx context.Context, r *endpoint.Request) error {
	var back sessions.Callback
	query := r.Query()
	query.Text("state", &back.State, 0, 128)
	query.Text("code", &back.Code, 0, 4096)
	query.Text("iss", &back.Issuer, 0, 1024)
	query.Text("error", &back.Error, 0, 128)
	if err := query.Check(); err != nil {
		return err
	}
	signedIn, err := h.signIn.Complete(withActor(ctx, r, ""), r.Cookie(signInCookie), back)
	if err != nil {
		h.logFailure(ctx, r, err)
		return err
	}
	// A session that this browser had before, perhaps not its own, ends.
	if err := h.sessions.End(ctx, r.Cookie(SessionCookie)); err != nil {
		h.logger.WarnContext(ctx, "the session before a sign-in was not ended", "request_id", string(r.ID), "error", err)
	}
	setCookie(r.HTTP, signInCookie, "", 0)
	setCookie(r.HTTP, SessionCookie, signedIn.Token, h.lifetime)
	r.Redirect(returnTo(signedIn.ReturnTo))
	return nil
}

func (h *signInHandlers) logFailure(ctx context.Context, r *endpoint.Request, err error) {
	if away, ok := errors.AsType[*sessions.ProviderError](err); ok {
		h.logger.WarnContext(ctx, "sign-in failed at the provider", "request_id", string(r.ID), "code", away.Code)
	}
	reason := ""
	if refused, ok := errors.AsType[*sessions.RefusedError](err); ok {
		reason = refused.Reason
	}
	if stranger, ok := errors.AsType[*accounts.NoAccountError](err); ok {
		reason = stranger.Error()
	}
	if reason != "" {
		h.logger.InfoContext(ctx, "sign-in refused", "request_id", string(r.ID), "reason", reason)
	}
}

// navigation returns a handler whose failures lead the browser to the console's page of refusals. The next page does not learn
// the request's address, which can have a code.
func navigation(handle endpoint.Handler) endpoint.Handler {
	return func(ctx context.Context, r *endpoint.Request) error {
		err := handle(ctx, r)
		r.HTTP.Response.Header.Set("Referrer-Policy", "no-referrer")
		if err == nil {
			return nil
		}
		answer := *apierror.From(err)
		answer.Page = refusedPage + "?" + url.Values{"reason": {refusal(err, &answer)}, "request_id": {string(r.ID)}}.Encode()
		return &navigationError{&answer, err}
	}
}

// navigationError is the failure of a navigation, and the response to it.
type navigationError struct {
	answer *apierror.Error
	cause  error
}

func (e *navigationError) Error() string { return e.cause.Error() }

func (e *navigationError) Unwrap() []error { return []error{e.answer, e.cause} }

// refusal returns the reason that the page of refusals shows: one of a few fixed words.
func refusal(err error, answer *apierror.Error) string {
	refused, isRefused := errors.AsType[*sessions.RefusedError](err)
	switch {
	case isRefused && refused.Over:
		return "expired"
	case isRefused && refused.ByProvider:
		return "denied"
	case is[*accounts.NoAccountError](err):
		return "no_account"
	case is[*sessions.ProviderError](err):
		return "provider"
	case answer.Status == fasthttp.StatusServiceUnavailable:
		return "unavailable"
	case answer.Status >= fasthttp.StatusInternalServerError:
		return "internal"
	default:
		return "refused"
	}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
