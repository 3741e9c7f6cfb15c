// Package audit owns the append-only record of what developers and administrators did to accounts, keys, webhooks and
// sessions (table audit_log). A record has the actor, the action, its object, the time, the client's address and the request.
//
// The context carries the actor ([WithActor]). The HTTP interface sets the signed-in person, and the command line sets the
// operating system's user. A change without an actor, such as one of the operator, is not recorded here: the resource in
// Kubernetes has its history.
//
// A store writes the record in the transaction of its change ([Record]), so both exist or neither does. If the record
// cannot be written, the change fails. That includes sign-in and sign-out. Each successful call has one record, even if it
// changed nothing (a key revoked twice). Rejected calls have none.
//
// A record is sufficient to reconstruct the action, and contains no secret: no API key, signing secret, session token or
// email address. It has only the host of a webhook's URL, since path and query can contain tokens.
//
// The database rejects changes of records, also from the table's owner. docs/operations.md shows how to separate the roles
// and how to delete old records. The package imports no other domain package; the packages that own accounts, keys,
// webhooks and sessions import it.
package audit
