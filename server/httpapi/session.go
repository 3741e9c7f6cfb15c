package httpapi

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/audit"
	"examprep.dev/server/sessions"
)

// SignIn leads a developer through the OpenID Connect provider, and out again; *sessions.SignIn is one.
type SignIn interface {
	Begin(ctx context.Context) (address, token string, err error)
	Complete(ctx context.Context, token string, back sessions.Callback) (string, error)
	SignOut(ctx context.Context, token string, session sessions.Session) error
	SignOutEverywhere(ctx context.Context, session sessions.Session) error
}

// Sessions knows who is signed in; *sessions.Store is one.
type Sessions interface {
	Lookup(ctx context.Context, token string) (sessions.Session, error)
	End(ctx context.Context, token string) error
}

// The cookies. The prefix makes browsers refuse them without Secure, with a Domain, or from a subdomain (RFC 6265bis).
const (
	cookieSession = "__Host-examprep_session"
	cookieSignIn  = "__Host-examprep_sign_in"
)

// sessionPath is where a signed-in developer lands.
const sessionPath = "/v1/developer/session"

// A sessionHandler answers a request of a signed-in developer.
type sessionHandler func(ctx context.Context, r *request, session sessions.Session) error

// signedIn hands over the session that passSession found.
func signedIn(next sessionHandler) handler {
	return func(ctx context.Context, r *request) error { return next(ctx, r, r.session) }
}

// passSession admits to a developer's routes whom the session cookie names, and refuses what another site's page sends
// along with it.
func (s *Server) passSession(route *route, next handler) handler {
	if route.access != accessSession {
		return next
	}
	return func(ctx context.Context, r *request) error {
		if err := checkOrigin(r.http); err != nil {
			return err
		}
		session, err := s.lookUpSession(ctx, string(r.http.Request.Header.Cookie(cookieSession)))
		if _, ok := errors.AsType[*sessions.NoSessionError](err); ok {
			return &apiError{status: fasthttp.StatusUnauthorized, code: codeUnauthorized, bySession: true, detail: "Sign in first: GET /v1/developer/sign-in"}
		}
		if err != nil {
			return err
		}
		r.session = session
		return next(s.acting(ctx, r, audit.Person(session.Issuer, session.Subject)), r)
	}
}

// confirmSession asks again where a body had to come first: the session may have ended meanwhile.
func (s *Server) confirmSession(route *route, next handler) handler {
	if route.needs < needBody {
		return next
	}
	return s.passSession(route, next)
}

// lookUpSession has a time limit of its own: the handler's begins when its body was read.
func (s *Server) lookUpSession(ctx context.Context, token string) (sessions.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HandleTimeout)
	defer cancel()
	return s.developer.Sessions.Lookup(ctx, token)
}

// checkOrigin refuses state-changing requests from another origin. Browsers say where a request comes from: by
// Sec-Fetch-Site, older ones by Origin. A program that says neither has no cookies to be abused.
func checkOrigin(ctx *fasthttp.RequestCtx) error {
	if ctx.IsGet() || ctx.IsHead() || ctx.IsOptions() {
		return nil
	}
	refused := &apiError{status: fasthttp.StatusForbidden, code: codeForbidden, detail: "This request comes from another origin."}
	switch site := string(ctx.Request.Header.Peek("Sec-Fetch-Site")); site {
	case "same-origin", "none":
		return nil
	case "":
	default:
		return refused
	}
	origin := string(ctx.Request.Header.Peek("Origin"))
	if origin == "" {
		return nil
	}
	parsed, err := url.Parse(origin)
	if err != nil || parsed.Host != string(ctx.Host()) || !keepsCookies(parsed) {
		return refused
	}
	return nil
}

// keepsCookies tells whether pages of an origin can have the session cookie, which is Secure: HTTPS, or this machine. A
// page of the same host without TLS may be anybody's on the way.
func keepsCookies(origin *url.URL) bool {
	address, err := netip.ParseAddr(origin.Hostname())
	return origin.Scheme == "https" || origin.Hostname() == "localhost" || err == nil && address.IsLoopback()
}

// beginSignIn sends the browser to the provider.
func (s *Server) beginSignIn(ctx context.Context, r *request) error {
	address, token, err := s.developer.SignIn.Begin(ctx)
	if err != nil {
		return err
	}
	setCookie(r.http, cookieSignIn, token, sessions.SignInTimeout)
	redirect(r.http, address)
	return nil
}

// completeSignIn takes what the provider sent back.
func (s *Server) completeSignIn(ctx context.Context, r *request) error {
	back, err := decodeCallback(r.http.URI().QueryString())
	if err != nil {
		return err
	}
	token, err := s.developer.SignIn.Complete(s.acting(ctx, r, ""), string(r.http.Request.Header.Cookie(cookieSignIn)), back)
	if err != nil {
		return s.ofSignIn(ctx, r, err)
	}
	// The session that this browser had, or was made to have, does not live on beside the new one.
	if err := s.developer.Sessions.End(ctx, string(r.http.Request.Header.Cookie(cookieSession))); err != nil {
		s.logger.WarnContext(ctx, "the session before a sign-in was not ended", "request_id", string(r.id), "error", err)
	}
	setCookie(r.http, cookieSignIn, "", 0)
	setCookie(r.http, cookieSession, token, s.developer.SessionLifetime)
	hideAddress(r.http)
	redirect(r.http, sessionPath)
	return nil
}

// decodeCallback reads the parameters of RFC 6749 §4.1.2 and RFC 9207; what a provider sends beside them is ignored.
func decodeCallback(query []byte) (back sessions.Callback, err error) {
	err = decodeQuery(query,
		queryText("state", &back.State, 128),
		queryText("code", &back.Code, 4096),
		queryText("iss", &back.Issuer, 1024),
		queryText("error", &back.Error, 128),
	)
	return back, err
}

// ofSignIn turns a sign-in that did not succeed into its answer.
func (s *Server) ofSignIn(ctx context.Context, r *request, err error) error {
	if away, ok := errors.AsType[*sessions.ProviderError](err); ok {
		s.logger.WarnContext(ctx, "sign-in failed at the provider", "request_id", string(r.id), "code", away.Code)
	}
	refused, ok := errors.AsType[*sessions.RefusedError](err)
	if !ok {
		return err
	}
	s.logger.InfoContext(ctx, "sign-in refused", "request_id", string(r.id), "reason", refused.Reason)
	detail := "The sign-in was not accepted."
	if refused.ByProvider {
		detail = "You were not signed in at the provider."
	}
	hideAddress(r.http)
	return &apiError{
		status: fasthttp.StatusUnauthorized, code: codeUnauthorized, bySession: true,
		detail: detail + " Begin again: GET /v1/developer/sign-in",
	}
}

// hideAddress keeps what follows from being told the callback's address, which holds a code.
func hideAddress(ctx *fasthttp.RequestCtx) { ctx.Response.Header.Set("Referrer-Policy", "no-referrer") }

// getSession tells who is signed in.
func (s *Server) getSession(_ context.Context, r *request, session sessions.Session) error {
	return writeValue(r.http, fasthttp.StatusOK, struct {
		Account   string    `json:"account"`
		Email     string    `json:"email,omitempty"`
		CreatedAt time.Time `json:"created_at"`
	}{session.Account, session.Email, session.CreatedAt})
}

// deleteSession signs out; with ?everywhere=true out of every session of the account.
func (s *Server) deleteSession(ctx context.Context, r *request, session sessions.Session) error {
	var everywhere bool
	err := decodeQuery(r.http.URI().QueryString(), queryBoolean("everywhere", &everywhere))
	if err != nil {
		return err
	}
	if everywhere {
		err = s.developer.SignIn.SignOutEverywhere(ctx, session)
	} else {
		err = s.developer.SignIn.SignOut(ctx, string(r.http.Request.Header.Cookie(cookieSession)), session)
	}
	if err != nil {
		return err
	}
	setCookie(r.http, cookieSession, "", 0)
	r.http.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// setCookie sets one of our cookies for lifetime; an empty value removes it.
func setCookie(ctx *fasthttp.RequestCtx, name, value string, lifetime time.Duration) {
	cookie := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(cookie)
	cookie.SetKey(name)
	cookie.SetValue(value)
	cookie.SetPath("/")
	cookie.SetHTTPOnly(true)
	cookie.SetSecure(true)
	cookie.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	cookie.SetMaxAge(int(lifetime / time.Second))
	if value == "" {
		cookie.SetExpire(fasthttp.CookieExpireDelete)
	}
	ctx.Response.Header.SetCookie(cookie)
}
