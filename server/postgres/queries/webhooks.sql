-- name: InsertEndpoint :one
INSERT INTO webhook_endpoints (id, account_id, url, events, description)
VALUES (@id, @account_id, @url, @events, @description)
RETURNING created_at;

-- name: EndpointsOfAccount :many
SELECT * FROM webhook_endpoints WHERE account_id = @account_id::uuid ORDER BY created_at DESC, id;

-- name: EndpointOfAccount :one
SELECT * FROM webhook_endpoints WHERE id = @id AND account_id = @account_id::uuid;

-- name: LockEndpointOfAccount :one
SELECT * FROM webhook_endpoints WHERE id = @id AND account_id = @account_id::uuid FOR UPDATE;

-- name: ChangeEndpoint :one
-- An endpoint that is enabled again begins with a clean record.
UPDATE webhook_endpoints
SET url = @url, events = @events, description = @description, status = @status, disabled_reason = @disabled_reason,
    failing_since = CASE WHEN status = 'disabled' THEN NULL ELSE failing_since END, updated_at = now()
WHERE id = @id
RETURNING *;

-- name: RemoveEndpoint :exec
DELETE FROM webhook_endpoints WHERE id = @id;

-- name: CancelPending :execrows
UPDATE webhook_deliveries SET state = 'cancelled', lease = NULL, lease_until = NULL, finished_at = now()
WHERE endpoint_id = @endpoint_id AND state = 'pending';

-- name: ManagedEndpoint :one
SELECT * FROM webhook_endpoints WHERE managed_by = @managed_by::text;

-- name: LockManagedEndpoint :one
SELECT * FROM webhook_endpoints WHERE managed_by = @managed_by::text FOR UPDATE;

-- name: InsertManagedEndpoint :one
INSERT INTO webhook_endpoints (id, account_id, url, events, description, status, disabled_reason, managed_by)
VALUES (@id, @account_id, @url, @events, @description, @status, @disabled_reason, @managed_by)
ON CONFLICT (managed_by) DO NOTHING
RETURNING *;

-- name: MoveEndpoint :exec
UPDATE webhook_endpoints SET account_id = @account_id, updated_at = now() WHERE id = @id;

-- name: TouchEndpoint :exec
UPDATE webhook_endpoints SET updated_at = now() WHERE id = @id;

-- name: InsertSecret :exec
INSERT INTO webhook_secrets (id, endpoint_id, key_id, ciphertext) VALUES (@id, @endpoint_id, @key_id, @ciphertext);

-- name: SecretsOfEndpoint :many
SELECT id, key_id, ciphertext, expires_at FROM webhook_secrets
WHERE endpoint_id = @endpoint_id AND (expires_at IS NULL OR expires_at > now())
ORDER BY created_at DESC, id;

-- name: ExpireSecrets :exec
-- Secrets of an earlier rotation that are still about keep their end.
UPDATE webhook_secrets SET expires_at = now() + make_interval(secs => @overlap_seconds::float8)
WHERE endpoint_id = @endpoint_id AND expires_at IS NULL;

-- name: DropExpiredSecrets :exec
DELETE FROM webhook_secrets WHERE endpoint_id = @endpoint_id AND expires_at <= now();

-- name: ReplaceCiphertext :exec
UPDATE webhook_secrets SET key_id = @key_id, ciphertext = @ciphertext WHERE id = @id;

-- name: SecretsUnderOtherKeys :many
SELECT id, endpoint_id, key_id, ciphertext FROM webhook_secrets WHERE key_id <> @key_id ORDER BY id LIMIT 100;

-- name: HealthOfManaged :one
SELECT e.id, e.status, e.disabled_reason, e.failing_since, e.last_status, e.last_success_at,
       (SELECT count(*) FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'pending') AS backlog,
       coalesce((SELECT min(d.created_at) FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'pending'), to_timestamp(0))::timestamptz AS oldest
FROM webhook_endpoints e WHERE e.managed_by = @managed_by::text;

-- name: ClaimDue :many
-- The relay's bite: rows that nobody has in hand. They come up again after the hold unless somebody leases them.
UPDATE webhook_deliveries d SET relay_at = now() + make_interval(secs => @hold_seconds::float8)
WHERE d.id IN (
    SELECT due.id FROM webhook_deliveries due WHERE due.state = 'pending' AND due.relay_at <= now()
    ORDER BY due.relay_at LIMIT @batch FOR UPDATE SKIP LOCKED)
RETURNING d.id, d.endpoint_id;

-- name: Unclaim :exec
UPDATE webhook_deliveries SET relay_at = now() + make_interval(secs => @delay_seconds::float8)
WHERE id = ANY (@ids::uuid[]) AND state = 'pending' AND lease IS NULL;

-- name: Lease :many
WITH leased AS (
    UPDATE webhook_deliveries d
    SET attempt = d.attempt + 1, lease = @lease::uuid,
        lease_until = now() + make_interval(secs => @term_seconds::float8),
        relay_at = now() + make_interval(secs => @term_seconds::float8)
    FROM webhook_endpoints e
    WHERE d.id = ANY (@ids::uuid[]) AND d.state = 'pending' AND d.next_attempt_at <= now()
      AND (d.lease_until IS NULL OR d.lease_until <= now()) AND d.attempt < @max_attempts::int
      AND e.id = d.endpoint_id AND e.status = 'enabled'
    RETURNING d.id, d.attempt, d.event_id, d.endpoint_id, d.created_at, e.url, e.updated_at)
SELECT l.id, l.attempt, l.event_id, l.endpoint_id, l.created_at, l.url, l.updated_at, ev.body
FROM leased l JOIN webhook_events ev ON ev.id = l.event_id;

-- name: Unlease :exec
-- A try that never began: the attempt is given back. Fenced like a completion.
UPDATE webhook_deliveries d
SET attempt = d.attempt - 1, lease = NULL, lease_until = NULL,
    relay_at = now() + make_interval(secs => @delay_seconds::float8)
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt) u
WHERE d.id = u.id AND d.attempt = u.attempt AND d.lease = @lease::uuid AND d.state = 'pending';

-- name: Complete :many
-- The fence: a worker whose lease has passed to another changes nothing.
UPDATE webhook_deliveries d
SET state = u.state, last_status = nullif(u.status, 0), last_error = u.error, lease = NULL, lease_until = NULL,
    next_attempt_at = CASE WHEN u.state = 'pending' THEN now() + make_interval(secs => u.delay) ELSE d.next_attempt_at END,
    relay_at = CASE WHEN u.state = 'pending' THEN now() + make_interval(secs => u.delay) ELSE d.relay_at END,
    finished_at = CASE WHEN u.state = 'pending' THEN NULL ELSE now() END
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@states::text[]) AS state,
             unnest(@statuses::int[]) AS status, unnest(@errors::text[]) AS error, unnest(@delays::float8[]) AS delay) u
WHERE d.id = u.id AND d.attempt = u.attempt AND d.lease = @lease::uuid AND d.state = 'pending'
RETURNING d.id;

-- name: NoteHealth :exec
-- One row per endpoint and flush, and only when it says something new.
UPDATE webhook_endpoints e
SET last_status = nullif(u.status, 0),
    last_success_at = CASE WHEN u.ok THEN now() ELSE e.last_success_at END,
    failing_since = CASE WHEN u.ok THEN NULL ELSE coalesce(e.failing_since, now()) END
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@oks::bool[]) AS ok, unnest(@statuses::int[]) AS status) u
WHERE e.id = u.id
  AND (u.ok AND (e.failing_since IS NOT NULL OR e.last_success_at IS NULL OR e.last_success_at < now() - interval '30 seconds')
       OR NOT u.ok AND (e.failing_since IS NULL OR e.last_status IS DISTINCT FROM nullif(u.status, 0)));

-- name: DisableEndpoint :execrows
UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = @reason, updated_at = now()
WHERE id = @id AND status = 'enabled';

-- name: DisableFailing :many
UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = @reason, updated_at = now()
WHERE status = 'enabled' AND failing_since < now() - make_interval(secs => @seconds::float8)
RETURNING id;

-- name: Backlog :one
SELECT count(*) AS pending,
       coalesce(extract(epoch FROM now() - min(relay_at) FILTER (WHERE relay_at <= now())), 0)::float8 AS oldest_due_seconds
FROM webhook_deliveries WHERE state = 'pending';

-- name: CancelOrphans :execrows
-- Deliveries whose endpoint was deleted or disabled while their event was being written.
UPDATE webhook_deliveries d SET state = 'cancelled', finished_at = now()
WHERE d.id = ANY (@ids::uuid[]) AND d.state = 'pending' AND d.lease IS NULL
  AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = d.endpoint_id AND e.status = 'enabled');

-- name: FailExhausted :execrows
-- Deliveries whose last try was begun by a worker that never came back to tell of it.
UPDATE webhook_deliveries d
SET state = 'failed', last_error = 'worker_lost', lease = NULL, lease_until = NULL, finished_at = now()
WHERE d.id = ANY (@ids::uuid[]) AND d.state = 'pending' AND d.attempt >= @max_attempts::int AND d.lease_until <= now();
