-- Webhook endpoints and their signing secrets.

-- name: InsertEndpoint :one
INSERT INTO webhook_endpoints (id, account_id, url, events, description)
VALUES (@id, @account_id, @url, @events, @description)
RETURNING created_at;

-- name: CountEndpoints :one
SELECT count(*) FROM webhook_endpoints WHERE account_id = @account_id::uuid AND managed_by IS NULL;

-- name: LockAccount :exec
-- Registrations of one account wait for each other, so that the limit is exact.
SELECT pg_advisory_xact_lock(hashtextextended('webhook_endpoints ' || (@account_id::uuid)::text, 0));

-- name: BacklogsOfAccount :many
-- The endpoints of an account, or one of them, newest first. Each count reads at most bound rows: pending deliveries with the earliest
-- next_attempt_at, and failures since the last success.
SELECT sqlc.embed(e), p.pending, coalesce(p.oldest, to_timestamp(0))::timestamptz AS oldest, f.failed
FROM webhook_endpoints e CROSS JOIN LATERAL (
    SELECT count(*) AS pending, min(q.created_at) AS oldest FROM (
        SELECT d.created_at FROM webhook_deliveries d
        WHERE d.endpoint_id = e.id AND d.state = 'pending' ORDER BY d.next_attempt_at LIMIT @bound) q) p
CROSS JOIN LATERAL (
    SELECT count(*) AS failed FROM (
        SELECT FROM webhook_deliveries d
        WHERE d.endpoint_id = e.id AND d.state = 'failed' AND NOT d.superseded
          AND d.finished_at > coalesce(e.last_success_at, '-infinity')
        ORDER BY d.finished_at LIMIT @bound) q) f
WHERE e.account_id = @account_id::uuid AND (sqlc.narg('id')::uuid IS NULL OR e.id = sqlc.narg('id'))
ORDER BY e.created_at DESC, e.id DESC;

-- name: CountHealthy :one
SELECT count(*) FROM webhook_endpoints WHERE account_id = @account_id::uuid AND status = 'enabled' AND failing_since IS NULL;

-- name: FailingEndpoints :many
-- The enabled endpoints of an account that fail, the one that has failed longest first. Counts at most bound pending deliveries of each.
SELECT e.id, e.url, e.failing_since, e.last_status, e.last_failure, p.pending
FROM (SELECT w.id, w.url, w.failing_since, w.last_status, w.last_failure FROM webhook_endpoints w
      WHERE w.account_id = @account_id::uuid AND w.status = 'enabled' AND w.failing_since IS NOT NULL
      ORDER BY w.failing_since, w.id LIMIT @most) e
CROSS JOIN LATERAL (
    SELECT count(*) AS pending FROM (
        SELECT FROM webhook_deliveries d
        WHERE d.endpoint_id = e.id AND d.state = 'pending' ORDER BY d.next_attempt_at LIMIT @bound) q) p
ORDER BY e.failing_since, e.id;

-- name: DisabledEndpoints :many
SELECT id, url, disabled_reason FROM webhook_endpoints
WHERE account_id = @account_id::uuid AND status = 'disabled' ORDER BY created_at DESC, id DESC LIMIT @most;

-- name: EndpointOfAccount :one
SELECT * FROM webhook_endpoints WHERE id = @id AND account_id = @account_id::uuid;

-- name: LockEndpointOfAccount :one
SELECT * FROM webhook_endpoints WHERE id = @id AND account_id = @account_id::uuid FOR UPDATE;

-- name: ChangeEndpoint :one
-- An endpoint that is enabled again, or has another URL, starts without failures.
UPDATE webhook_endpoints
SET url = @url, events = @events, description = @description, status = @status, disabled_reason = @disabled_reason,
    failing_since = CASE WHEN url <> @url OR (status = 'disabled' AND @status = 'enabled') THEN NULL ELSE failing_since END,
    updated_at = now()
WHERE id = @id
RETURNING *;

-- name: RemoveEndpoint :exec
DELETE FROM webhook_endpoints WHERE id = @id;

-- name: LockManagedEndpoint :one
SELECT * FROM webhook_endpoints WHERE managed_by = @managed_by::text FOR UPDATE;

-- name: InsertManagedEndpoint :one
INSERT INTO webhook_endpoints (id, account_id, url, events, description, status, disabled_reason, managed_by)
VALUES (@id, @account_id, @url, @events, @description, @status, @disabled_reason, @managed_by)
ON CONFLICT (managed_by) DO NOTHING
RETURNING *;

-- name: HealthOfManaged :one
-- Reads bound pending deliveries at most, those with the earliest next_attempt_at.
SELECT sqlc.embed(e), p.backlog, coalesce(p.oldest, to_timestamp(0))::timestamptz AS oldest
FROM webhook_endpoints e CROSS JOIN LATERAL (
    SELECT count(*) AS backlog, min(q.created_at) AS oldest FROM (
        SELECT d.created_at FROM webhook_deliveries d
        WHERE d.endpoint_id = e.id AND d.state = 'pending' ORDER BY d.next_attempt_at LIMIT @bound) q) p
WHERE e.managed_by = @managed_by::text;

-- name: InsertSecret :exec
INSERT INTO webhook_secrets (id, endpoint_id, key_id, ciphertext) VALUES (@id, @endpoint_id, @key_id, @ciphertext);

-- name: SecretsOfEndpoint :many
SELECT id, key_id, ciphertext, expires_at FROM webhook_secrets
WHERE endpoint_id = @endpoint_id AND (expires_at IS NULL OR expires_at > now())
ORDER BY created_at DESC, id;

-- name: ExpireSecrets :exec
UPDATE webhook_secrets SET expires_at = now() + make_interval(secs => @overlap_seconds::float8)
WHERE endpoint_id = @endpoint_id AND expires_at IS NULL;

-- name: DropEarlierSecrets :exec
-- All secrets but the newest one.
DELETE FROM webhook_secrets WHERE endpoint_id = @endpoint_id AND expires_at IS NOT NULL;

-- name: ExpiredSecrets :many
SELECT id FROM webhook_secrets WHERE expires_at <= now() AND id > @after ORDER BY id LIMIT 100;

-- name: DropSecrets :exec
-- Skips locked rows, so it never waits for another transaction.
DELETE FROM webhook_secrets WHERE id IN (
    SELECT s.id FROM webhook_secrets s WHERE s.id = ANY (@ids::uuid[]) AND s.expires_at <= now() FOR UPDATE SKIP LOCKED);

-- name: SecretsUnderKeys :many
SELECT id FROM webhook_secrets WHERE key_id = ANY (@key_ids::text[]) AND id > @after ORDER BY id LIMIT 100;

-- name: Secret :one
SELECT endpoint_id, key_id, ciphertext FROM webhook_secrets WHERE id = @id;

-- name: ReplaceCiphertextOfUnlocked :exec
-- Skips a locked row, so it never waits for another transaction.
UPDATE webhook_secrets SET key_id = @key_id, ciphertext = @ciphertext
WHERE id = (SELECT s.id FROM webhook_secrets s WHERE s.id = @id FOR UPDATE SKIP LOCKED);

-- name: ReplaceCiphertext :exec
UPDATE webhook_secrets SET key_id = @key_id, ciphertext = @ciphertext WHERE id = @id;
