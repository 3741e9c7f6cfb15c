-- name: AccountOfIdentity :one
SELECT account_id FROM account_identities WHERE issuer = $1 AND subject = $2;

-- name: LinkIdentity :one
-- The first sign-in wins; a second at the same time gets the first one's account.
INSERT INTO account_identities (issuer, subject, account_id) VALUES ($1, $2, $3)
ON CONFLICT (issuer, subject) DO UPDATE SET issuer = excluded.issuer
RETURNING account_id;

-- name: SignInUsed :one
-- Reports whether a sign-in was completed. It fails where the table cannot be written, for example on a standby.
SELECT EXISTS (SELECT FROM used_sign_ins u WHERE u.hash = $1 FOR UPDATE) AS used;

-- name: UseSignIn :execrows
-- Inserts nothing if the sign-in was completed already.
INSERT INTO used_sign_ins (hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: InsertSession :exec
INSERT INTO sessions (hash, account_id, issuer, subject, email, created_at, last_used_at, expires_at)
VALUES (@hash, @account_id, @issuer, @subject, @email, @now, @now, @expires_at);

-- name: ExpiredSessions :many
SELECT hash FROM sessions WHERE expires_at <= @now ORDER BY expires_at LIMIT @most;

-- name: DropSessions :exec
-- Skips locked rows, so it never waits for another transaction.
DELETE FROM sessions WHERE hash IN (SELECT s.hash FROM sessions s WHERE s.hash = ANY (@hashes::bytea[]) FOR UPDATE SKIP LOCKED);

-- name: ExpiredSignIns :many
SELECT hash FROM used_sign_ins WHERE expires_at <= @now ORDER BY expires_at LIMIT @most;

-- name: DropSignIns :exec
-- Skips locked rows, so it never waits for another transaction.
DELETE FROM used_sign_ins WHERE hash IN (SELECT u.hash FROM used_sign_ins u WHERE u.hash = ANY (@hashes::bytea[]) FOR UPDATE SKIP LOCKED);

-- name: LookUpSession :one
SELECT s.account_id, a.name AS account, s.issuer, s.subject, s.email, s.created_at, s.last_used_at
FROM sessions s JOIN accounts a ON a.id = s.account_id
WHERE s.hash = $1 AND s.expires_at > @now AND s.last_used_at > @used_after;

-- name: TouchSession :one
UPDATE sessions SET last_used_at = greatest(last_used_at, @now) WHERE hash = $1 RETURNING hash;

-- name: DeleteSession :exec
DELETE FROM sessions WHERE hash = $1;

-- name: DeleteSessionsOfAccount :exec
DELETE FROM sessions WHERE account_id = $1;
