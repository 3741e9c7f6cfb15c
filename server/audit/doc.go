// Package audit owns the append-only record of what developers and administrators did to keys, webhooks and sessions
// (table audit_log). A record has the actor, the action, its object, the time, the client's address and the request.
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
// The database rejects UPDATE, DELETE and TRUNCATE, also from the table's owner and from superusers. That prevents
// mistakes. It does not stop an intruder with the credentials of the table's owner, who can disable the trigger or drop the
// table. If the processes use the DATABASE_URL of examprep migrate, their role is the owner. To separate the two, give
// migrate a role that owns everything, and give api, worker and operator another role. After each migration, grant that
// role only the privileges that it needs:
//
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO examprep_app;
//	REVOKE UPDATE, DELETE ON audit_log FROM examprep_app;
//
// Only people create records, not requests with an API key. The table stays small, and has no partitions to drop. To
// delete old records, use SQL as the owner of the table; the server's log shows it. Actions wait while the statement runs,
// so it deletes few rows. Repeat it until it deletes none, and when it does not get the lock in time:
//
//	BEGIN;
//	SET LOCAL lock_timeout = '1s';
//	ALTER TABLE audit_log DISABLE TRIGGER audit_log_append_only;
//	DELETE FROM audit_log WHERE id IN (
//	    SELECT id FROM audit_log WHERE at < now() - interval '7 years' ORDER BY at LIMIT 5000);
//	ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_append_only;
//	COMMIT;
//
// It imports no other domain package. The packages that own keys, webhooks and sessions import it.
package audit
