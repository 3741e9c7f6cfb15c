-- The worker's statements (server/webhooks/delivery). They run with delivery.SessionSettings: the planner's statistics about
-- pending rows are always outdated. PostgreSQL cannot prune partitions by an array parameter, so min and max bounds let it
-- skip partitions. Keep `= ANY(ids)`: without it the plan reads the whole range of ids.

-- name: Lease :many
-- Leases due rows of enabled endpoints, as many of each as its room. A row that another worker is leasing is skipped. If a
-- lease has expired, its attempt is logged as worker_lost and does not count toward the retry limit. body is NULL if the
-- event was deleted. The first secret is the newest. Rows with a next_attempt_at before since are not read: the index still has
-- the entries of rows that have ended, until no snapshot is older than their end and vacuum removes them.
WITH target AS MATERIALIZED (
    SELECT e.id, e.url, e.updated_at, (e.managed_by IS NOT NULL)::bool AS managed, r.room, r.since, s.key_ids, s.ciphertexts
    FROM (SELECT unnest(@endpoints::uuid[]) AS id, unnest(@rooms::int[]) AS room, unnest(@sinces::timestamptz[]) AS since) r
    JOIN webhook_endpoints e ON e.id = r.id AND e.status = 'enabled'
    CROSS JOIN LATERAL (
        SELECT array_agg(w.key_id ORDER BY w.created_at DESC, w.id) AS key_ids,
               array_agg(w.ciphertext ORDER BY w.created_at DESC, w.id) AS ciphertexts
        FROM webhook_secrets w WHERE w.endpoint_id = e.id AND (w.expires_at IS NULL OR w.expires_at > now())) s
), due AS MATERIALIZED (
    SELECT d.id, d.lease_id IS NOT NULL AS is_lost, d.lease_until FROM target t CROSS JOIN LATERAL (
        SELECT p.id, p.lease_id, p.lease_until FROM webhook_deliveries p
        WHERE p.endpoint_id = t.id AND p.state = 'pending' AND p.next_attempt_at >= t.since AND p.next_attempt_at <= now()
          AND (p.lease_until IS NULL OR p.lease_until <= now()) AND p.id <> ALL (@skip::uuid[])
        ORDER BY p.next_attempt_at LIMIT t.room FOR UPDATE OF p SKIP LOCKED) d
), leased AS (
    UPDATE webhook_deliveries d
    SET attempt = d.attempt + 1, lost_attempts = d.lost_attempts + (d.lease_id IS NOT NULL)::int, lease_id = @lease_id::uuid,
        lease_until = now() + make_interval(secs => @lease_seconds::float8)
    WHERE d.id = ANY (ARRAY(SELECT id FROM due))
      AND d.id >= (SELECT id FROM due ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM due ORDER BY id DESC LIMIT 1)
    RETURNING d.id, d.attempt, d.lost_attempts, d.event_id, d.endpoint_id, d.created_at, d.next_attempt_at
), log AS (
    INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms, failure)
    SELECT l.id, l.attempt - 1, due.lease_until - make_interval(secs => @lease_seconds::float8), 0, 'worker_lost'
    FROM due JOIN leased l ON l.id = due.id WHERE due.is_lost
    ON CONFLICT (delivery_id, attempt) DO NOTHING)
SELECT l.id, l.attempt, l.lost_attempts, l.event_id, l.endpoint_id, t.url, t.updated_at, t.managed::bool AS managed,
    coalesce(t.key_ids, '{}')::text[] AS key_ids, coalesce(t.ciphertexts, '{}')::bytea[] AS ciphertexts,
    extract(epoch FROM l.created_at)::float8 AS created_epoch,
    (SELECT ev.body FROM webhook_events ev WHERE ev.id = l.event_id)::bytea AS body,
    coalesce((SELECT ev.traceparent FROM webhook_events ev WHERE ev.id = l.event_id), '')::text AS traceparent,
    EXISTS (SELECT FROM due WHERE due.id = l.id AND due.is_lost) AS is_lost, l.next_attempt_at
FROM leased l JOIN target t ON t.id = l.endpoint_id;

-- name: FirstDue :one
-- The row that Lease takes first.
SELECT d.id FROM webhook_deliveries d
WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending' AND d.next_attempt_at >= @since::timestamptz AND d.next_attempt_at <= now()
  AND (d.lease_until IS NULL OR d.lease_until <= now()) AND d.id <> ALL (@skip::uuid[])
ORDER BY d.next_attempt_at LIMIT 1;

-- name: Complete :many
-- Writes results, fenced by lease and attempt: a worker whose lease another worker took changes nothing but the log of its
-- own attempt. A row without an attempt (attempted is false) gives its attempt back. No state is checked, because each
-- write of a final state clears the lease. If a row is locked for longer than 10 ms, the statement fails. With skip_locked it
-- waits for no row, but reads each twice; it then also returns the rows that are locked.
WITH bounded AS MATERIALIZED (
    SELECT CASE WHEN NOT @skip_locked::bool THEN set_config('lock_timeout', '10ms', true) END
), u AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@attempted::bool[]) AS attempted,
           unnest(@states::text[]) AS state, unnest(@statuses::int[]) AS status, unnest(@failures::text[]) AS failure,
           unnest(@delays::float8[]) AS delay, unnest(@began::timestamptz[]) AS began, unnest(@millis::int[]) AS millis,
           unnest(@responses::text[]) AS response
    FROM bounded
), free AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d
    WHERE @skip_locked AND d.id = ANY (@ids::uuid[])
      AND d.id >= (SELECT id FROM u ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM u ORDER BY id DESC LIMIT 1)
    FOR UPDATE OF d SKIP LOCKED
), log AS (
    INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms, status, failure, response)
    SELECT u.id, u.attempt, u.began, u.millis, nullif(u.status, 0), u.failure, u.response
    FROM u WHERE u.attempted AND (NOT @skip_locked OR u.id IN (SELECT id FROM free))
    ON CONFLICT (delivery_id, attempt) DO UPDATE
    SET began_at = excluded.began_at, duration_ms = excluded.duration_ms, status = excluded.status,
        failure = excluded.failure, response = excluded.response
    WHERE webhook_attempts.failure = 'worker_lost'
), written AS (
    UPDATE webhook_deliveries d
    SET state = u.state, lease_id = NULL, lease_until = NULL,
        attempt = CASE WHEN u.attempted THEN d.attempt ELSE d.attempt - 1 END,
        last_status = CASE WHEN u.attempted THEN nullif(u.status, 0) ELSE d.last_status END,
        last_failure = CASE WHEN u.attempted THEN u.failure ELSE d.last_failure END,
        next_attempt_at = CASE WHEN u.state = 'pending' THEN now() + make_interval(secs => u.delay) ELSE d.next_attempt_at END,
        finished_at = CASE WHEN u.state = 'pending' THEN NULL ELSE now() END
    FROM u
    WHERE d.id = u.id AND d.id = ANY (CASE WHEN @skip_locked THEN ARRAY(SELECT id FROM free) ELSE @ids::uuid[] END)
      AND d.id >= (SELECT id FROM u ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM u ORDER BY id DESC LIMIT 1)
      AND d.attempt = u.attempt AND d.lease_id = @lease_id::uuid
    RETURNING d.id
)
SELECT w.id, false AS locked FROM written w
UNION ALL
SELECT d.id, true FROM webhook_deliveries d
WHERE @skip_locked AND (SELECT count(*) FROM free) < cardinality(@ids::uuid[]) -- else no row is looked up
  AND d.id = ANY (@ids::uuid[])
  AND d.id >= (SELECT id FROM u ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM u ORDER BY id DESC LIMIT 1)
  AND d.id NOT IN (SELECT id FROM free);

-- name: Sweep :many
-- Endpoints that have due rows without a lease, and endpoints with pending rows that are disabled or deleted. oldest is the
-- next_attempt_at of the row that is due longest. The cost does not depend on the number of rows of an endpoint.
WITH RECURSIVE queue AS (
    (SELECT d.endpoint_id FROM webhook_deliveries d WHERE d.state = 'pending' ORDER BY d.endpoint_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.endpoint_id FROM webhook_deliveries d
            WHERE d.state = 'pending' AND d.endpoint_id > q.endpoint_id ORDER BY d.endpoint_id LIMIT 1)
    FROM queue q WHERE q.endpoint_id IS NOT NULL)
SELECT q.endpoint_id::uuid AS endpoint_id, (e.id IS NOT NULL)::bool AS enabled, (e.failing_since IS NOT NULL)::bool AS failing,
    coalesce(extract(epoch FROM now() - due.next_attempt_at), 0)::float8 AS due_seconds,
    coalesce(due.next_attempt_at, now())::timestamptz AS oldest
FROM queue q
LEFT JOIN webhook_endpoints e ON e.id = q.endpoint_id AND e.status = 'enabled'
LEFT JOIN LATERAL (
    SELECT d.next_attempt_at FROM webhook_deliveries d
    WHERE d.endpoint_id = q.endpoint_id AND d.state = 'pending' AND d.next_attempt_at <= now()
      AND (d.lease_until IS NULL OR d.lease_until <= now())
    ORDER BY d.next_attempt_at LIMIT 1) due ON true
WHERE q.endpoint_id IS NOT NULL AND (e.id IS NULL OR due.next_attempt_at IS NOT NULL);

-- name: SweepKnown :many
-- The same for endpoints that are named, from a next_attempt_at on: it does not read the entries of rows that have ended before.
SELECT k.id::uuid AS endpoint_id, (e.id IS NOT NULL)::bool AS enabled, (e.failing_since IS NOT NULL)::bool AS failing,
    coalesce(extract(epoch FROM now() - due.next_attempt_at), 0)::float8 AS due_seconds,
    coalesce(due.next_attempt_at, now())::timestamptz AS oldest
FROM (SELECT unnest(@endpoints::uuid[]) AS id, unnest(@sinces::timestamptz[]) AS since) k
LEFT JOIN webhook_endpoints e ON e.id = k.id AND e.status = 'enabled'
LEFT JOIN LATERAL (
    SELECT d.next_attempt_at FROM webhook_deliveries d
    WHERE d.endpoint_id = k.id AND d.state = 'pending' AND d.next_attempt_at >= k.since AND d.next_attempt_at <= now()
      AND (d.lease_until IS NULL OR d.lease_until <= now())
    ORDER BY d.next_attempt_at LIMIT 1) due ON true
WHERE due.next_attempt_at IS NOT NULL OR e.id IS NULL AND EXISTS (
    SELECT FROM webhook_deliveries d WHERE d.endpoint_id = k.id AND d.state = 'pending' AND d.next_attempt_at >= k.since);

-- name: CancellableDeliveries :many
-- Pending deliveries of an endpoint that is disabled or deleted: up to chunk with the least next_attempt_at from since on.
SELECT d.id, d.next_attempt_at FROM webhook_deliveries d
WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending' AND d.next_attempt_at >= @since::timestamptz
  AND d.id <> ALL (@skip::uuid[])
  AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = @endpoint_id AND e.status = 'enabled')
ORDER BY d.next_attempt_at LIMIT @chunk;

-- name: CancelDeliveries :execrows
-- Cancels pending deliveries of an endpoint, unless it is enabled again. It skips locked rows. The condition
-- on the state names the others: with state = 'pending' the plan reads the whole index of pending rows.
WITH u AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id
), pending AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.id = ANY (@ids::uuid[])
      AND d.id >= (SELECT id FROM u ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM u ORDER BY id DESC LIMIT 1)
      AND d.state NOT IN ('delivered', 'failed', 'cancelled')
      AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = @endpoint_id AND e.status = 'enabled')
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE webhook_deliveries d SET state = 'cancelled', lease_id = NULL, lease_until = NULL, finished_at = now()
WHERE d.id = ANY (ARRAY(SELECT id FROM pending))
  AND d.id >= (SELECT id FROM u ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM u ORDER BY id DESC LIMIT 1);

-- name: RecordHealth :many
-- Updates endpoints for which the latest results say something new, and disables an endpoint that has returned 410 or failed for
-- too long. seen is the updated_at that a 410 belongs to: if the endpoint changed since, the 410 says nothing about it.
-- Returns the endpoints that were disabled, with the reason, and those that another transaction has locked, without.
WITH u AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@oks::bool[]) AS ok, unnest(@statuses::int[]) AS status,
           unnest(@failures::text[]) AS failure, unnest(@seen::timestamptz[]) AS seen
), news AS MATERIALIZED (
    SELECT e.id, u.ok, u.status, u.failure, e.updated_at,
        CASE WHEN e.status = 'enabled' AND e.updated_at = u.seen THEN @gone::text
             WHEN e.status = 'enabled' AND NOT u.ok
                 AND e.failing_since < now() - make_interval(secs => @failing_seconds::float8) THEN @failing::text
             ELSE '' END AS reason
    FROM u JOIN webhook_endpoints e ON e.id = u.id
    WHERE u.ok AND (e.failing_since IS NOT NULL OR e.last_success_at IS NULL OR e.last_success_at < now() - interval '30 seconds')
       OR NOT u.ok AND (e.failing_since IS NULL OR e.last_status IS DISTINCT FROM nullif(u.status, 0) OR e.last_failure <> u.failure)
       OR e.status = 'enabled' AND (e.updated_at = u.seen
           OR NOT u.ok AND e.failing_since < now() - make_interval(secs => @failing_seconds::float8))
), free AS MATERIALIZED (
    SELECT e.id FROM webhook_endpoints e WHERE e.id = ANY (ARRAY(SELECT id FROM news)) FOR UPDATE OF e SKIP LOCKED
), written AS (
    UPDATE webhook_endpoints e
    SET last_status = nullif(n.status, 0), last_failure = n.failure,
        last_success_at = CASE WHEN n.ok THEN now() ELSE e.last_success_at END,
        failing_since = CASE WHEN n.ok THEN NULL ELSE coalesce(e.failing_since, now()) END,
        status = CASE WHEN n.reason <> '' THEN 'disabled' ELSE e.status END,
        disabled_reason = CASE WHEN n.reason <> '' THEN n.reason ELSE e.disabled_reason END,
        updated_at = CASE WHEN n.reason <> '' THEN now() ELSE e.updated_at END
    FROM news n
    WHERE e.id = n.id AND e.id = ANY (ARRAY(SELECT id FROM free)) AND (n.reason = '' OR e.updated_at = n.updated_at)
    RETURNING e.id, n.reason
)
SELECT w.id, w.reason::text AS reason FROM written w WHERE w.reason <> ''
UNION ALL
SELECT n.id, '' FROM news n WHERE n.id NOT IN (SELECT id FROM free);

-- name: Backlog :one
-- Counts at most bound rows, so that measuring a long backlog stays cheap.
SELECT count(*) FILTER (WHERE p.next_attempt_at <= now()) AS due, count(*) FILTER (WHERE p.next_attempt_at > now()) AS waiting
FROM (SELECT d.next_attempt_at FROM webhook_deliveries d WHERE d.state = 'pending' LIMIT @bound) p;

-- name: CountFailing :one
-- Enabled endpoints that have failed for longer than seconds.
SELECT count(*) FROM webhook_endpoints
WHERE status = 'enabled' AND failing_since < now() - make_interval(secs => @seconds::float8);

-- name: DatabaseTime :one
SELECT clock_timestamp()::timestamptz;

-- name: AddPartition :one
SELECT webhook_add_partition(@kind::text, @starts::timestamptz, @ends::timestamptz)::bool;

-- name: DropPartition :one
SELECT webhook_drop_partition(@kind::text, @name::text, @force::bool)::bool;
