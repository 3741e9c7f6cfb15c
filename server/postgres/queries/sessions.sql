-- name: SignInUsed :one
-- Reports whether a sign-in was completed. It fails where the table cannot be written, for example on a standby.
SELECT EXISTS (SELECT FROM used_sign_ins u WHERE u.hash = $1 FOR UPDATE) AS used;

-- name: UseSignIn :execrows
-- Inserts nothing if the sign-in was completed already.
INSERT INTO used_sign_ins (hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: InsertSession :exec
INSERT INTO sessions (hash, account_id, issuer, subject, email, created_at, last_used_at, expires_at)
VALUES (@hash, sqlc.narg('account_id'), @issuer, @subject, @email, @now, @now, @expires_at);

-- name: DropOldSessions :exec
-- Deletes a person's sessions but the newest. Skips locked rows, so it never waits for another transaction.
DELETE FROM sessions WHERE hash IN (
    SELECT s.hash FROM sessions s WHERE s.hash IN (
        SELECT o.hash FROM sessions o WHERE o.issuer = @issuer AND o.subject = @subject ORDER BY o.created_at DESC, o.hash OFFSET @kept::integer)
    FOR UPDATE SKIP LOCKED);

-- name: ExpiredSessions :many
-- Expired sessions after one, in the order of their ends.
SELECT hash, expires_at FROM sessions
WHERE expires_at <= @now AND (expires_at, hash) > (@after::timestamptz, @after_hash::bytea) ORDER BY expires_at, hash LIMIT @most;

-- name: DropSessions :exec
-- Skips locked rows, so it never waits for another transaction.
DELETE FROM sessions WHERE hash IN (SELECT s.hash FROM sessions s WHERE s.hash = ANY (@hashes::bytea[]) FOR UPDATE SKIP LOCKED);

-- name: ExpiredSignIns :many
-- Used sign-ins whose mark has expired after one, in the order of their ends.
SELECT hash, expires_at FROM used_sign_ins
WHERE expires_at <= @now AND (expires_at, hash) > (@after::timestamptz, @after_hash::bytea) ORDER BY expires_at, hash LIMIT @most;

-- name: DropSignIns :exec
-- Skips locked rows, so it never waits for another transaction.
DELETE FROM used_sign_ins WHERE hash IN (SELECT u.hash FROM used_sign_ins u WHERE u.hash = ANY (@hashes::bytea[]) FOR UPDATE SKIP LOCKED);

-- name: LookUpSession :one
-- A session with the person's role in its account. Both are empty if the person has chosen no account.
SELECT s.account_id, coalesce(a.name, '')::text AS account, coalesce(m.role, '')::text AS role, s.issuer, s.subject, s.email, s.created_at,
       s.last_used_at
FROM sessions s
LEFT JOIN account_members m ON m.account_id = s.account_id AND m.issuer = s.issuer AND m.subject = s.subject
LEFT JOIN accounts a ON a.id = m.account_id
WHERE s.hash = @hash AND s.issuer = @issuer AND s.expires_at > @now AND s.last_used_at > @used_after;

-- name: TouchSession :one
UPDATE sessions SET last_used_at = greatest(last_used_at, @now) WHERE hash = $1 RETURNING hash;

-- name: MoveSession :exec
-- The foreign key refuses an account whose member the person is not.
UPDATE sessions SET account_id = @account_id::uuid WHERE hash = @hash;

-- name: SessionsOf :many
-- The sessions of a person, the newest first.
SELECT s.hash, coalesce(a.name, '')::text AS account, s.created_at, s.last_used_at
FROM sessions s LEFT JOIN accounts a ON a.id = s.account_id
WHERE s.issuer = @issuer AND s.subject = @subject AND s.expires_at > @now AND s.last_used_at > @used_after
ORDER BY s.created_at DESC, s.hash LIMIT @page;

-- name: DeleteSession :exec
DELETE FROM sessions WHERE hash = $1;

-- name: DeleteSessionsOf :exec
DELETE FROM sessions WHERE issuer = $1 AND subject = $2;
