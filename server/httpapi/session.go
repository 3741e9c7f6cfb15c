package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
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

// Sessions are the signed-in developers; *sessions.Store implements it.
type Sessions interface {
	// Authentic reports, without a look-up, whether this installation made a token.
	Authentic(token []byte) bool
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

// passSession admits to a developer's routes whom the session cookie names, and refuses what another site's page sends
// along with it. The look-up has a time limit of its own: the handler's begins when its body was read.
func (s *Server) passSession(route *route, next handler) handler {
	if route.access != accessSession {
		return next
	}
	return func(ctx context.Context, r *request) error {
		if crossOrigin(r.http) {
			return &apiError{status: fasthttp.StatusForbidden, code: codeForbidden, detail: "This request comes from another origin."}
		}
		lookUp, cancel := context.WithTimeout(ctx, s.cfg.HandleTimeout)
		session, err := s.developer.Sessions.Lookup(lookUp, string(r.http.Request.Header.Cookie(cookieSession)))
		cancel()
		if err != nil {
			return err
		}
		r.session = session
		return next(s.acting(ctx, r, audit.Person(session.Issuer, session.Subject)), r)
	}
}

// crossOrigin reports whether a page of another origin sends a request that may change something. A program that says no
// origin has no cookies to be abused. A page of the same host without TLS may be anyone's, unless the host is this machine.
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

// acting says in the context who acts, from where, and in which request: what the stores change under it is recorded so.
// The name is empty of a person who is still signing in.
func (s *Server) acting(ctx context.Context, r *request, name string) context.Context {
	return audit.WithActor(ctx, audit.Actor{
		Kind: audit.Developer, Name: name, Address: clientAddress(r.http, s.cfg.TrustedProxies), RequestID: string(r.id),
	})
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

// completeSignIn takes what the provider sent back: the parameters of RFC 6749 §4.1.2 and RFC 9207.
func (s *Server) completeSignIn(ctx context.Context, r *request) error {
	var back sessions.Callback
	query := readQuery(r.http)
	query.text("state", &back.State, 128)
	query.text("code", &back.Code, 4096)
	query.text("iss", &back.Issuer, 1024)
	query.text("error", &back.Error, 128)
	if err := query.err(); err != nil {
		return err
	}
	token, err := s.developer.SignIn.Complete(s.acting(ctx, r, ""), string(r.http.Request.Header.Cookie(cookieSignIn)), back)
	if err != nil {
		s.logSignIn(ctx, r, err)
		return err
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

// logSignIn logs why a sign-in did not succeed.
func (s *Server) logSignIn(ctx context.Context, r *request, err error) {
	if away, ok := errors.AsType[*sessions.ProviderError](err); ok {
		s.logger.WarnContext(ctx, "sign-in failed at the provider", "request_id", string(r.id), "code", away.Code)
	}
	if refused, ok := errors.AsType[*sessions.RefusedError](err); ok {
		s.logger.InfoContext(ctx, "sign-in refused", "request_id", string(r.id), "reason", refused.Reason)
		hideAddress(r.http)
	}
}

// hideAddress keeps what follows from being told the callback's address, which holds a code.
func hideAddress(ctx *fasthttp.RequestCtx) { ctx.Response.Header.Set("Referrer-Policy", "no-referrer") }

// getSession tells who is signed in.
func (s *Server) getSession(_ context.Context, r *request) error {
	return writeValue(r.http, fasthttp.StatusOK, struct {
		Account   string    `json:"account"`
		Email     string    `json:"email,omitempty"`
		CreatedAt time.Time `json:"created_at"`
	}{r.session.Account, r.session.Email, r.session.CreatedAt})
}

// deleteSession signs out; with ?everywhere=true out of every session of the account.
func (s *Server) deleteSession(ctx context.Context, r *request) error {
	query := readQuery(r.http)
	everywhere := query.match("everywhere", "must be true or false", func(value string) bool { return value == "true" || value == "false" })
	err := query.err()
	switch {
	case err != nil:
	case everywhere == "true":
		err = s.developer.SignIn.SignOutEverywhere(ctx, r.session)
	default:
		err = s.developer.SignIn.SignOut(ctx, string(r.http.Request.Header.Cookie(cookieSession)), r.session)
	}
	if err == nil {
		setCookie(r.http, cookieSession, "", 0)
	}
	return writeNothing(r.http, err)
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
