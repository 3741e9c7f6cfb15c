package developer

import (
	"context"
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
		return nil, &apierror.Error{
			Status: fasthttp.StatusForbidden, Code: apierror.CodeForbidden, Detail: "This request comes from another origin.",
		}
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
