// Package sessions signs developers in with any OpenID Connect provider (authorization code with PKCE, RFC 7636) and keeps
// their sessions in PostgreSQL.
//
// A session is an opaque random token in a cookie. PostgreSQL has only the SHA-256 of the token. A session has an idle and
// an absolute time-out. Its last use is written at most once a minute. Signing in always makes a new token, so a token
// planted before cannot become a session. A new session deletes expired rows.
//
// A sign-in that has begun is kept by the browser alone, in a cookie that is encrypted with XChaCha20-Poly1305 under one key.
// Completing it marks it as used, starts the session and records both (server/audit) in one transaction. A sign-out and its
// record are one transaction too. A session that expires, or is replaced by a new sign-in, ends unrecorded.
//
// Before the provider gets the code, PostgreSQL must be writable. So a callback that finds PostgreSQL or discovery
// unavailable can be tried again. After a later failure the code is used up, and the person begins again.
//
// The provider is discovered at the first sign-in, so an API pod starts without it, and again every 10 minutes. While that
// fails, the known configuration stays in use.
//
// Errors: *RefusedError if the browser or the provider sent something that must not be accepted, *NoSessionError for an
// unknown or ended session, *ProviderError if the provider fails, and wrapped errors of PostgreSQL.
//
// It must not import fasthttp: cookies and redirects belong to server/httpapi.
package sessions
