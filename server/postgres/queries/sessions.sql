-- name: AccountOfIdentity :one
SELECT a.id, a.name FROM account_identities i JOIN accounts a ON a.id = i.account_id WHERE i.issuer = $1 AND i.subject = $2;

-- name: LinkIdentity :one
-- The first sign-in wins; a second at the same time gets the first one's account.
INSERT INTO account_identities (issuer, subject, account_id) VALUES ($1, $2, $3)
ON CONFLICT (issuer, subject) DO UPDATE SET issuer = excluded.issuer
RETURNING account_id;

-- name: CheckWritable :exec
-- Fails where the tables cannot be written: on a standby as well.
SELECT FROM account_identities WHERE false FOR UPDATE;
