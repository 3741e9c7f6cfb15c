package developer

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/audit"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/sessions"
)

// Sessions are the sessions of signed-in persons; *sessions.Store implements it.
type Sessions interface {
	// Authentic returns, without a look-up, the name of a token's person. It reports whether this installation made the token, and the
	// session's lifetime has not ended.
	Authentic(token []byte) (person []byte, ok bool)
	Lookup(ctx context.Context, token string) (sessions.Session, error)
	End(ctx context.Context, token string) error
	// List returns the sessions of a session's person, the newest first. token is the session's.
	List(ctx context.Context, token string, session sessions.Session) ([]sessions.Listed, error)
}

// The cookies. The prefix makes browsers refuse them without Secure, with a Domain, or from a subdomain (RFC 6265bis).
const (
	SessionCookie = "__Host-examprep_session"
	signInCookie  = "__Host-examprep_sign_in"
)

// accountHeader names the account that a client of several accounts means.
const accountHeader = "Examprep-Account"

// Admit finds the session of a request, and refuses what a page of another origin sends, and a role in the account that does not cover
// the needed one. It returns a context in which changes are recorded as the person's. The look-up takes at most timeout.
func Admit(
	ctx context.Context, r *endpoint.Request, needed accounts.Role, store Sessions, timeout time.Duration,
) (context.Context, error) {
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
	if needed != "" {
		if err := admitRole(found, needed, string(r.HTTP.Request.Header.Peek(accountHeader))); err != nil {
			return nil, err
		}
	}
	return withActor(ctx, r, found.Name()), nil
}

// admitRole refuses a session whose role does not cover the needed one, and one of another account than the client means: another page
// of the same browser chose it.
func admitRole(session sessions.Session, needed accounts.Role, meant string) error {
	switch {
	case session.Role == "":
		return apierror.New(fasthttp.StatusForbidden, apierror.CodeForbidden,
			"You work in no account: accept an invitation, or choose an account by PUT /v1/developer/session/account.")
	case meant != "" && meant != session.AccountID.String():
		return apierror.New(fasthttp.StatusConflict, apierror.CodeConflict,
			"The session is of another account than "+accountHeader+" names: read GET /v1/developer/session again.")
	case !session.Role.Covers(needed):
		return apierror.New(fasthttp.StatusForbidden, apierror.CodeForbidden,
			fmt.Sprintf("Your role in the account is %s. This needs the role %s.", session.Role, needed))
	}
	return nil
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
