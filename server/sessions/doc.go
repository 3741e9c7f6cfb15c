// Package sessions signs developers in with any OpenID Connect provider (authorization code with PKCE, RFC 7636) and keeps
// their sessions in PostgreSQL.
//
// A session is an opaque random token in a cookie. PostgreSQL has only the SHA-256 of the token. A session has an idle and
// an absolute time-out. The token has the absolute one, and a name of the person, encrypted: so requests are counted for the
// person, and an old token is refused, without a look-up. A person has at most 100 sessions. Signing in always makes a new token, so a token planted before cannot become a session.
//
// The browser alone keeps a sign-in that has begun, in an encrypted cookie. Completing it marks it as used, starts the
// session and records both (server/audit) in one transaction. A sign-out and its record are one transaction too. A session
// that expires, or is replaced by a new sign-in, ends unrecorded.
//
// Before the provider gets the code, PostgreSQL must be writable. So a callback that finds PostgreSQL or discovery
// unavailable can be tried again. After a later failure the code is used up, and the person begins again.
//
// Errors: *RefusedError if the browser or the provider sent something that must not be accepted, *NoSessionError for an
// unknown or ended session, *ProviderError if the provider fails, and wrapped errors of PostgreSQL.
//
// It must not import fasthttp: cookies and redirects belong to server/httpapi.
package sessions
