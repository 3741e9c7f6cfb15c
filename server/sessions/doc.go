// Package sessions signs developers in with any OpenID Connect provider (authorization code with PKCE, RFC 7636) and
// keeps their sessions: an opaque random token in a cookie, only its SHA-256 in Redis, with an idle and an absolute
// time-out. Signing in always makes a new token, so a token planted before cannot become a session.
//
// It fails with *RefusedError when the browser or the provider sent what cannot be accepted (a forged state, a nonce
// that is not ours, a code used before), with *NoSessionError when a token is unknown or has run out, and with wrapped
// errors of Redis, Postgres or the provider when one of them is away. The provider is discovered at the first sign-in,
// so an API pod starts without it.
//
// A sign-in that is under way is kept by the browser alone, sealed in a cookie; Redis learns of it at the callback, as
// used. Before that the provider, Postgres and Redis are asked, and a callback that finds one of them away may be tried
// again. One that loses them after it, in the midst, cannot: the provider's code is used up as well, and the person begins
// again, which leaves nothing behind but perhaps an account without a session.
//
// Who signs in and out is recorded (server/audit) before it takes effect, since Redis and Postgres have no transaction
// together; a session that runs out, or gives way to a new sign-in, ends unrecorded.
//
// It must not import fasthttp: cookies and redirects are server/httpapi's.
package sessions
