// Package audit owns the append-only record of what developers and administrators did to keys, webhooks and sessions:
// who, what, to what, when, from where, in which request (table audit_log).
//
// Who acts travels in the context ([WithActor]): the HTTP interface puts the signed-in person there, the command line the
// operating system's user. A change without an actor, such as the operator's reconcile, is recorded nowhere here: its
// history is that of the resource.
//
// What holds. A store records within the transaction of its change ([Record]), so neither is there without the other; a
// record that cannot be written fails the change. That includes sign-in and sign-out. There is one record for each
// call that succeeded, also where it changed nothing (a key revoked twice); what was refused is no action.
//
// What a record says is enough to retrace the action, and no secret: never a key, a signing secret, a session's token,
// an email address, nor of a webhook's URL more than the host, since senders put tokens into paths and queries.
//
// The database refuses UPDATE, DELETE and TRUNCATE, to the table's owner and to superusers as well. That stops mistakes. It
// does not stop an intruder who has the application's credentials where its role owns the table, as it does when the
// processes use the DATABASE_URL of examprep migrate: an owner may disable the trigger, or drop the table. Who wants that
// apart gives migrate a role that owns everything, and api, worker and operator another, which gets no more than it
// needs after each migrate:
//
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO examprep_app;
//	REVOKE UPDATE, DELETE ON audit_log FROM examprep_app;
//
// Records are few (a person makes them, not a request of a key), so there are no partitions to drop. Who must prune does
// so on purpose, as the owner, by DDL that the server's own log shows. Actions wait meanwhile, so the slices are small;
// this is one, to be repeated until it deletes none, and when it could not have the lock in time:
//
//	BEGIN;
//	SET LOCAL lock_timeout = '1s';
//	ALTER TABLE audit_log DISABLE TRIGGER audit_log_append_only;
//	DELETE FROM audit_log WHERE id IN (
//	    SELECT id FROM audit_log WHERE at < now() - interval '7 years' ORDER BY at LIMIT 5000);
//	ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_append_only;
//	COMMIT;
//
// It imports no other domain package; whoever changes what a developer owns imports it.
package audit
