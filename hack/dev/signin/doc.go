// Package signin is an OpenID Connect provider for one machine: authorization code with PKCE (S256), discovery, keys and
// user info over plain HTTP on a loopback address. It shows a page on which one chooses whom to be, without a password:
// whoever can reach the loopback address may sign in as anybody, which is right for a development environment and for
// nothing else.
//
// It is written here because the ready-made ones are libraries for tests that sign everybody in unasked and are no
// longer released, or products that want a database and a configuration of their own. Its signing key lives as long as
// the process; clients fetch the new one by its id.
//
// Codes are good for one minute and one use. Refusals follow RFC 6749: `invalid_client`, `invalid_grant` and
// `invalid_request`. It must not import anything of the product.
package signin
