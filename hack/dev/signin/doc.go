// Package signin is an OpenID Connect provider for one machine: mockoidc behind a page that lists the users to sign in as,
// without a password. Every client of its loopback address can sign in as every user. That suits a development environment
// only. A Browser is a program that signs in there.
//
// The provider accepts authorization codes with PKCE (S256) from one client, and sends browsers to one address. Its signing
// key lives as long as the process; clients fetch the new key by its ID. A code can be used once.
//
// It must not import anything of the product.
package signin
