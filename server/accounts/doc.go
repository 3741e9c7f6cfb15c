// Package accounts owns accounts, and the persons that act for them (CONSOLE part of docs/spec.md, part 5).
//
// An account is a customer: keys, webhooks, usage and attempts are an account's. Its id identifies it. Its name is for people, and for
// what resources declare. No name ever changes.
//
// A person is an OpenID Connect provider's issuer and subject, never an address. A member is a person with a role in an account. An
// account with members keeps an owner. [Store] is for persons: each call names the person that acts, and checks the person's role in the
// transaction of the change, with the account's row locked. [Administration] is for the command line, and checks no role.
//
// An invitation offers a role to an address for 14 days. A person accepts it who signs in with that address, if the provider has
// verified it. Only that makes a member, so an invitation says nothing about who has the address. An invitation ends with its
// inviter's ownership.
//
// Each change is one transaction with its record in the audit log. A record has the id of the member or invitation, never an address.
package accounts
