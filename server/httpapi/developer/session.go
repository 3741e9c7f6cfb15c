package developer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/audit"
	"examprep.dev/server/httpapi/apierror"
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

type signInHandlers struct {
	signIn   SignIn
	sessions Sessions
	lifetime time.Duration
	logger   *slog.Logger
}

const (
	signInPath = "/v1/developer/sign-in"
	// sessionPath is where a signed-in developer lands.
	sessionPath = "/v1/developer/session"
)

func (h *signInHandlers) routes() []endpoint.Route {
	const get, open, waits = fasthttp.MethodGet, endpoint.Open, endpoint.Time
	return []endpoint.Route{
		{Method: get, Path: "/", Operation: "openConsole", Access: open, Handle: openConsole},
		{Method: get, Path: signInPath, Operation: "beginSignIn", Access: open, Needs: waits, Handle: h.begin},
		{Method: get, Path: "/v1/developer/callback", Operation: "completeSignIn", Access: open, Needs: waits, Handle: h.complete},
		session(get, sessionPath, "getSession", waits, h.get),
		session(fasthttp.MethodDelete, sessionPath, "deleteSession", waits, h.signOut),
	}
}

func openConsole(_ context.Context, r *endpoint.Request) error {
	r.Redirect(signInPath)
	return nil
}

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
	query.Text("state", &back.State, 0, 128)
	query.Text("code", &back.Code, 0, 4096)
	query.Text("iss", &back.Issuer, 0, 1024)
	query.Text("error", &back.Error, 0, 128)
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

func (h *signInHandlers) get(_ context.Context, r *endpoint.Request) error {
	return r.OK(struct {
		Account   string    `json:"account"`
		Email     string    `json:"email,omitempty"`
		CreatedAt time.Time `json:"created_at"`
	}{r.Session.Account, r.Session.Email, r.Session.CreatedAt}, nil)
}

// signOut ends the session; with ?everywhere=true every session of the account.
func (h *signInHandlers) signOut(ctx context.Context, r *endpoint.Request) error {
	everywhere, query := false, r.Query()
	query.Bool("everywhere", &everywhere)
	err := query.Check()
	switch {
	case err != nil:
	case everywhere:
		err = h.signIn.SignOutEverywhere(ctx, r.Session)
	default:
		err = h.signIn.SignOut(ctx, r.Cookie(SessionCookie), r.Session)
	}
	if err == nil {
		setCookie(r.HTTP, SessionCookie, "", 0)
	}
	return r.NoContent(err)
}

// Sessions are the signed-in developers; *sessions.Store implements it.
type Sessions interface {
	// Authentic reports, without a look-up, whether this installation made a token.
	Authentic(token []byte) bool
	Lookup(ctx context.Context, token string) (sessions.Session, error)
	End(ctx context.Context, token string) error
}

// The cookies. The prefix makes browsers refuse them without Secure, with a Domain, or from a subdomain (RFC 6265bis).
const (
	SessionCookie = "__Host-examprep_session"
	signInCookie  = "__Host-examprep_sign_in"
)

// Admit finds the session of a request, and refuses what a page of another origin sends. It returns a context in which changes
// are recorded as the developer's. The look-up takes at most timeout.
func Admit(ctx context.Context, r *endpoint.Request, store Sessions, timeout time.Duration) (context.Context, error) {
	if crossOrigin(r.HTTP) {
		return nil, apierror.New(fasthttp.StatusForbidden, apierror.CodeForbidden, "This request comes from another origin.")
	}
	lookUp, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := store.Lookup(lookUp, r.Cookie(SessionCookie))
	if err != nil {
		return nil, err
	}
	r.Session = found
	return withActor(ctx, r, audit.Person(found.Issuer, found.Subject)), nil
}

// crossOrigin reports whether a page of another origin sends a request that may change something. A program that sends no
// Origin has no cookies that a page could use. A page of the same host without TLS can be anyone's, unless the host is this
// machine.
func crossOrigin(ctx *fasthttp.RequestCtx) bool {
	header := &ctx.Request.Header
	site, origin := string(header.Peek("Sec-Fetch-Site")), string(header.Peek("Origin"))
	if host, plain := strings.CutPrefix(origin, "http://"); plain && site == "" && !ctx.IsGet() && !ctx.IsHead() {
		address, err := netip.ParseAddrPort(host)
		if name, _, _ := strings.Cut(host, ":"); name != "localhost" && (err != nil || !address.Addr().IsLoopback()) {
			return true
		}
	}
	return new(http.CrossOriginProtection).Check(&http.Request{
		Method: string(header.Method()), Host: string(ctx.Host()),
		Header: http.Header{"Sec-Fetch-Site": {site}, "Origin": {origin}},
	}) != nil
}

// withActor says in the context who acts, from where, and in which request, for the audit log. The name is empty while a person
// signs in.
func withActor(ctx context.Context, r *endpoint.Request, name string) context.Context {
	return audit.WithActor(ctx, audit.Actor{Kind: audit.Developer, Name: name, Address: r.Client, RequestID: string(r.ID)})
}

// setCookie sets a cookie for lifetime; an empty value removes it.
func setCookie(ctx *fasthttp.RequestCtx, name, value string, lifetime time.Duration) {
	cookie := http.Cookie{ //nolint:gosec // it has all three attributes
		Name: name, Value: value, MaxAge: int(lifetime / time.Second),
		Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	ctx.Response.Header.Add(fasthttp.HeaderSetCookie, cookie.String())
}
