-- name: InsertEndpoint :one
INSERT INTO webhook_endpoints (id, account_id, url, events, description)
VALUES (@id, @account_id, @url, @events, @description)
RETURNING created_at;

-- name: EndpointsOfAccount :many
SELECT * FROM webhook_endpoints WHERE account_id = @account_id::uuid ORDER BY created_at DESC, id DESC;

-- name: EndpointOfAccount :one
SELECT * FROM webhook_endpoints WHERE id = @id AND account_id = @account_id::uuid;

-- name: LockEndpointOfAccount :one
SELECT * FROM webhook_endpoints WHERE id = @id AND account_id = @account_id::uuid FOR UPDATE;

-- name: ChangeEndpoint :one
-- An endpoint that is enabled again, or names another receiver, begins with a clean record.
UPDATE webhook_endpoints
SET url = @url, events = @events, description = @description, status = @status, disabled_reason = @disabled_reason,
    failing_since = CASE WHEN url <> @url OR (status = 'disabled' AND @status = 'enabled') THEN NULL ELSE failing_since END,
    updated_at = now()
WHERE id = @id
RETURNING *;

-- name: RemoveEndpoint :exec
DELETE FROM webhook_endpoints WHERE id = @id;

-- name: CancelPending :execrows
-- So many of the deliveries to an endpoint that is no longer enabled, or gone. The rest is refused a lease, and cancelled
-- then. So are rows that another statement holds: with no one waiting for a row, statements of many cannot deadlock.
WITH pending AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending'
      AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = @endpoint_id AND e.status = 'enabled')
    LIMIT @chunk FOR UPDATE OF d SKIP LOCKED
)
UPDATE webhook_deliveries d SET state = 'cancelled', lease = NULL, lease_until = NULL, finished_at = now()
WHERE d.id = ANY (ARRAY(SELECT id FROM pending))
  AND d.id >= (SELECT id FROM pending ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM pending ORDER BY id DESC LIMIT 1);

-- name: ManagedEndpoint :one
SELECT * FROM webhook_endpoints WHERE managed_by = @managed_by::text;

-- name: LockManagedEndpoint :one
SELECT * FROM webhook_endpoints WHERE managed_by = @managed_by::text FOR UPDATE;

-- name: InsertManagedEndpoint :one
INSERT INTO webhook_endpoints (id, account_id, url, events, description, status, disabled_reason, managed_by)
VALUES (@id, @account_id, @url, @events, @description, @status, @disabled_reason, @managed_by)
ON CONFLICT (managed_by) DO NOTHING
RETURNING *;

-- name: TouchEndpoint :exec
UPDATE webhook_endpoints SET updated_at = now() WHERE id = @id;

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
-- All but the one that is current.
DELETE FROM webhook_secrets WHERE endpoint_id = @endpoint_id AND expires_at IS NOT NULL;

-- name: ReplaceCiphertext :exec
UPDATE webhook_secrets SET key_id = @key_id, ciphertext = @ciphertext WHERE id = @id;

-- name: SecretsUnderOtherKeys :many
SELECT id, endpoint_id, key_id, ciphertext FROM webhook_secrets
WHERE key_id <> @key_id AND id > @after ORDER BY id LIMIT 100;

-- name: DropAllExpiredSecrets :exec
DELETE FROM webhook_secrets WHERE expires_at <= now();

-- name: HealthOfManaged :one
-- Of a long backlog bound rows are counted.
SELECT e.id, e.status, e.disabled_reason, e.failing_since, e.last_status, e.last_success_at,
       (SELECT count(*) FROM (
           SELECT FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'pending' LIMIT @bound) p) AS backlog,
       coalesce((SELECT min(d.created_at) FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'pending'), to_timestamp(0))::timestamptz AS oldest
FROM webhook_endpoints e WHERE e.managed_by = @managed_by::text;

-- The planner knows little of partitioned tables and nothing of queues: what its statistics say of rows that are pending is
-- long past. Statements here must not depend on what it guesses (nor do they where workers' sessions are set as
-- PlannerSettings says). So rows are looked up by a list of ids, which is a search by index whatever else it thinks; their
-- bounds (from sub-selects: they are known when the statement begins) pass over the partitions that cannot hold one of
-- them; what must be true of them stands in a CASE, for a state that is asked for in the open would let it read a partial
-- index of all that is pending and look for the ids there; events are looked up row by row, by a sub-select of their own;
-- and generate_series makes a list of outcomes look long enough to be hashed.

-- name: ClaimDue :many
-- The relay's bite: rows that nobody has in hand. They come up again after the hold unless somebody leases them.
WITH due AS MATERIALIZED (
    SELECT p.id FROM webhook_deliveries p WHERE p.state = 'pending' AND p.relay_at <= now()
    ORDER BY p.relay_at LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries d SET relay_at = now() + make_interval(secs => @hold_seconds::float8), parked = false
WHERE d.id = ANY (ARRAY(SELECT id FROM due))
  AND d.id >= (SELECT id FROM due ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM due ORDER BY id DESC LIMIT 1)
RETURNING d.id, d.endpoint_id;

-- name: Unclaim :exec
-- Puts rows off that nobody has in hand: each by its own delay, and never to before its retry is due. Those that are parked
-- may be recalled before that.
WITH put AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@delays::float8[]) AS delay, generate_series(1, cardinality(@ids::uuid[]))
), idle AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.id = ANY (@ids::uuid[])
      AND d.id >= (SELECT id FROM put ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM put ORDER BY id DESC LIMIT 1)
      AND CASE WHEN d.state = 'pending' THEN d.lease_until IS NULL OR d.lease_until <= now() ELSE false END
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE webhook_deliveries d
SET relay_at = greatest(d.next_attempt_at, now() + make_interval(secs => put.delay)), parked = @parked::bool FROM put
WHERE d.id = put.id AND d.id = ANY (ARRAY(SELECT id FROM idle))
  AND d.id >= (SELECT id FROM idle ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM idle ORDER BY id DESC LIMIT 1);

-- name: Lease :many
-- A row that another worker is leasing is skipped. One whose lease ran out was lost with its worker: the try is logged as
-- that, and not held against the delivery. relay_at usually lies beyond the lease already: then no index changes, and the
-- row's new version stays on its page. A row whose event is gone is refused.
WITH asked AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id
), idle AS MATERIALIZED (
    SELECT d.id, d.lease IS NOT NULL AS taken_over, d.lease_until FROM webhook_deliveries d
    WHERE d.id = ANY (@ids::uuid[])
      AND d.id >= (SELECT id FROM asked ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM asked ORDER BY id DESC LIMIT 1)
      AND CASE WHEN d.state = 'pending' AND d.next_attempt_at <= now() AND (d.lease_until IS NULL OR d.lease_until <= now())
          THEN d.attempt - d.lost - (d.lease IS NOT NULL)::int < @max_attempts::int
           AND d.lost + (d.lease IS NOT NULL)::int < @max_lost::int
          ELSE false END
      AND EXISTS (SELECT FROM webhook_events ev WHERE ev.id = d.event_id OFFSET 0)
    FOR UPDATE OF d SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT id, lease_until FROM idle WHERE taken_over
), leased AS (
    UPDATE webhook_deliveries d
    SET attempt = d.attempt + 1, lost = d.lost + (d.lease IS NOT NULL)::int, lease = @lease::uuid,
        lease_until = now() + make_interval(secs => @term_seconds::float8),
        relay_at = greatest(d.relay_at, now() + make_interval(secs => @term_seconds::float8)), parked = false
    FROM webhook_endpoints e
    WHERE d.id = ANY (ARRAY(SELECT id FROM idle))
      AND d.id >= (SELECT id FROM idle ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM idle ORDER BY id DESC LIMIT 1)
      AND e.id = d.endpoint_id AND e.status = 'enabled'
    RETURNING d.id, d.attempt, d.lost, d.event_id, d.endpoint_id, d.created_at, e.url, e.updated_at
), log AS (
    INSERT INTO webhook_tries (delivery_id, attempt, began_at, duration_ms, failure)
    SELECT l.id, l.attempt - 1, lost.lease_until - make_interval(secs => @term_seconds::float8), 0, 'worker_lost'
    FROM lost JOIN leased l ON l.id = lost.id
    ON CONFLICT (delivery_id, attempt) DO NOTHING)
SELECT l.id, l.attempt, l.lost, l.event_id, l.endpoint_id, l.created_at, l.url, l.updated_at,
    (SELECT ev.body FROM webhook_events ev WHERE ev.id = l.event_id)::bytea AS body,
    EXISTS (SELECT FROM lost WHERE lost.id = l.id) AS taken_over
FROM leased l;

-- name: Traceparents :many
-- Asked by workers only whose traces go somewhere; nearly all events have none.
WITH asked AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id
)
SELECT ev.id, ev.traceparent::text AS traceparent FROM webhook_events ev
WHERE ev.id = ANY (@ids::uuid[])
  AND ev.id >= (SELECT id FROM asked ORDER BY id LIMIT 1) AND ev.id <= (SELECT id FROM asked ORDER BY id DESC LIMIT 1)
  AND ev.traceparent IS NOT NULL;

-- name: Unlease :exec
-- A try that never began: the attempt is given back. Fenced like a completion.
UPDATE webhook_deliveries d
SET attempt = d.attempt - 1, lease = NULL, lease_until = NULL,
    relay_at = now() + make_interval(secs => @delay_seconds::float8)
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt) u
WHERE d.id = u.id AND d.id = ANY (@ids::uuid[])
  AND CASE WHEN d.attempt = u.attempt AND d.lease = @lease::uuid THEN d.state = 'pending' ELSE false END;

-- name: Complete :many
-- The fence: a worker whose lease has passed to another changes nothing of the delivery. Its try is logged all the same,
-- for it was made. Whether a try is left, and how long the wait for it is at least, is asked of the row: since it was
-- leased, an outcome that came late may have made a lost try count (TellLate).
WITH u AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@states::text[]) AS state,
           unnest(@statuses::int[]) AS status, unnest(@errors::text[]) AS error, unnest(@delays::float8[]) AS delay,
           unnest(@began::timestamptz[]) AS began, unnest(@millis::int[]) AS millis, unnest(@answers::text[]) AS answer,
           @least_delay::float8 AS least, @factor::float8 AS factor, @max_attempts::int AS most,
           generate_series(1, cardinality(@ids::uuid[]))
), log AS (
    INSERT INTO webhook_tries (delivery_id, attempt, began_at, duration_ms, status, failure, answer)
    SELECT u.id, u.attempt, u.began, u.millis, nullif(u.status, 0), u.error, u.answer FROM u
    ON CONFLICT (delivery_id, attempt) DO NOTHING
)
UPDATE webhook_deliveries d
SET state = CASE WHEN u.state = 'pending' AND d.attempt - d.lost >= u.most THEN 'failed' ELSE u.state END,
    last_status = nullif(u.status, 0), last_error = u.error, lease = NULL, lease_until = NULL,
    next_attempt_at = CASE WHEN u.state = 'pending'
        THEN now() + make_interval(secs => greatest(u.delay, u.least * power(u.factor, least(d.attempt - d.lost, u.most) - 1)))
        ELSE d.next_attempt_at END,
    relay_at = CASE WHEN u.state = 'pending'
        THEN now() + make_interval(secs => greatest(u.delay, u.least * power(u.factor, least(d.attempt - d.lost, u.most) - 1)))
        ELSE d.relay_at END,
    finished_at = CASE WHEN u.state = 'pending' AND d.attempt - d.lost < u.most THEN NULL ELSE now() END
FROM u
WHERE d.id = u.id AND d.id = ANY (@ids::uuid[])
  AND d.id >= (SELECT id FROM u ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM u ORDER BY id DESC LIMIT 1)
  AND CASE WHEN d.attempt = u.attempt AND d.lease = @lease::uuid THEN d.state = 'pending' ELSE false END
RETURNING d.id;

-- name: TellLate :exec
-- Outcomes that came after their leases had passed on: they take the place of what was logged of their tries as lost, and
-- these tries count again. Where one of them succeeded the event has arrived, whoever has the delivery now; where nobody
-- has it and they were its last, it has failed as it had failed last.
WITH u AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@statuses::int[]) AS status,
           unnest(@errors::text[]) AS error, unnest(@began::timestamptz[]) AS began, unnest(@millis::int[]) AS millis,
           unnest(@answers::text[]) AS answer
), late AS (
    UPDATE webhook_tries t
    SET began_at = u.began, duration_ms = u.millis, status = nullif(u.status, 0), failure = u.error, answer = u.answer
    FROM u
    WHERE t.delivery_id = u.id AND t.delivery_id = ANY (@ids::uuid[]) AND t.attempt = u.attempt AND t.failure = 'worker_lost'
    RETURNING t.delivery_id, t.status, t.failure
), known AS (
    SELECT delivery_id, count(*)::int AS tries, bool_or(failure = '') AS arrived, max(status) FILTER (WHERE failure = '') AS status
    FROM late GROUP BY delivery_id
)
UPDATE webhook_deliveries d
SET lost = greatest(d.lost - k.tries, 0),
    state = CASE WHEN k.arrived THEN 'delivered'
                 WHEN d.lease IS NULL AND d.attempt - greatest(d.lost - k.tries, 0) >= @max_attempts::int THEN 'failed'
                 ELSE 'pending' END,
    finished_at = CASE WHEN k.arrived OR d.lease IS NULL AND d.attempt - greatest(d.lost - k.tries, 0) >= @max_attempts::int
                       THEN now() END,
    last_status = CASE WHEN k.arrived THEN k.status ELSE d.last_status END,
    last_error = CASE WHEN k.arrived THEN '' ELSE d.last_error END,
    lease = CASE WHEN NOT k.arrived THEN d.lease END,
    lease_until = CASE WHEN NOT k.arrived THEN d.lease_until END
FROM known k
WHERE d.id = k.delivery_id AND d.id = ANY (@ids::uuid[]) AND CASE WHEN d.state = 'pending' THEN true ELSE false END;

-- name: NoteHealth :many
-- One row per endpoint, and only when it says something new. A row that somebody else is writing is left alone: returns
-- those of which there was something to note and it was not.
WITH news AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@oks::bool[]) AS ok, unnest(@statuses::int[]) AS status
), new AS MATERIALIZED (
    SELECT e.id, news.ok, news.status FROM webhook_endpoints e JOIN news ON news.id = e.id
    WHERE news.ok AND (e.failing_since IS NOT NULL OR e.last_success_at IS NULL OR e.last_success_at < now() - interval '30 seconds')
       OR NOT news.ok AND (e.failing_since IS NULL OR e.last_status IS DISTINCT FROM nullif(news.status, 0))
), due AS MATERIALIZED (
    SELECT e.id FROM webhook_endpoints e WHERE e.id = ANY (ARRAY(SELECT id FROM new)) FOR UPDATE OF e SKIP LOCKED
), noted AS (
    UPDATE webhook_endpoints e
    SET last_status = nullif(new.status, 0),
        last_success_at = CASE WHEN new.ok THEN now() ELSE e.last_success_at END,
        failing_since = CASE WHEN new.ok THEN NULL ELSE coalesce(e.failing_since, now()) END
    FROM new WHERE e.id = new.id AND e.id = ANY (ARRAY(SELECT id FROM due))
)
SELECT new.id FROM new WHERE new.id NOT IN (SELECT id FROM due);

-- name: DisableEndpoint :execrows
-- The answer of a receiver that the endpoint no longer names, or was enabled again since, says nothing about it.
UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = @reason, updated_at = now()
WHERE id = @id AND status = 'enabled' AND updated_at = @seen;

-- name: DisableFailing :many
-- Of endpoints that failed just now, those that have failed for so long. One that nothing was sent to is not judged.
UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = @reason, updated_at = now()
WHERE id = ANY (@ids::uuid[]) AND status = 'enabled'
  AND failing_since < now() - make_interval(secs => @seconds::float8)
RETURNING id;

-- name: FailingLong :many
-- Enabled endpoints on their way to being disabled, the longest first.
SELECT id, failing_since::timestamptz AS failing_since FROM webhook_endpoints
WHERE status = 'enabled' AND failing_since < now() - make_interval(secs => @seconds::float8)
ORDER BY failing_since LIMIT 100;

-- name: Backlog :one
-- At most bound rows are looked at: measuring a long backlog must not add to it. They are those that nobody has had in
-- hand for longest, so that the oldest one is among them, or has been taken in hand since.
SELECT count(*) FILTER (WHERE p.next_attempt_at <= now()) AS due,
       count(*) FILTER (WHERE p.next_attempt_at > now()) AS waiting,
       coalesce(extract(epoch FROM now() - min(p.next_attempt_at) FILTER (WHERE p.next_attempt_at <= now())), 0)::float8
           AS oldest_due_seconds,
       coalesce(extract(epoch FROM now() - min(p.relay_at) FILTER (WHERE p.relay_at <= now())), 0)::float8 AS outbox_lag_seconds
FROM (SELECT d.next_attempt_at, d.relay_at FROM webhook_deliveries d WHERE d.state = 'pending' ORDER BY d.relay_at LIMIT @bound) p;

-- name: CancelOrphans :many
-- Deliveries whose endpoint was deleted or disabled while their event was being written, or while a worker that died
-- had them; and those whose event is gone with its time. Returns the endpoints: more may be pending for them.
WITH orphans AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.id = ANY (@ids::uuid[])
      AND CASE WHEN d.state = 'pending' THEN d.lease_until IS NULL OR d.lease_until <= now() ELSE false END
      AND (NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = d.endpoint_id AND e.status = 'enabled')
        OR NOT EXISTS (SELECT FROM webhook_events ev WHERE ev.id = d.event_id))
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE webhook_deliveries d SET state = 'cancelled', lease = NULL, lease_until = NULL, finished_at = now()
WHERE d.id = ANY (ARRAY(SELECT id FROM orphans))
RETURNING d.endpoint_id;

-- name: StillDue :many
-- Which deliveries could be leased, but for a lock that somebody holds for a moment.
WITH asked AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id
)
SELECT d.id FROM webhook_deliveries d
WHERE d.id = ANY (@ids::uuid[])
  AND d.id >= (SELECT id FROM asked ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM asked ORDER BY id DESC LIMIT 1)
  AND CASE WHEN d.state = 'pending' AND d.next_attempt_at <= now() THEN d.lease_until IS NULL OR d.lease_until <= now() ELSE false END;

-- name: FailLost :execrows
-- Deliveries that have lost so many workers that it may be their doing, or have no try left. One that nobody had in hand
-- ends as its last try did.
WITH hopeless AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.id = ANY (@ids::uuid[])
      AND CASE WHEN d.state = 'pending' AND (d.lease_until IS NULL OR d.lease_until <= now())
          THEN d.lost + (d.lease IS NOT NULL)::int >= @max_lost::int
            OR d.attempt - d.lost - (d.lease IS NOT NULL)::int >= @max_attempts::int
          ELSE false END
    FOR UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries d
SET state = 'failed', lost = d.lost + (d.lease IS NOT NULL)::int,
    last_error = CASE WHEN d.lease IS NULL AND d.last_error <> '' THEN d.last_error ELSE 'worker_lost' END,
    lease = NULL, lease_until = NULL, finished_at = now()
WHERE d.id = ANY (ARRAY(SELECT id FROM hopeless));

-- name: CountEndpoints :one
SELECT count(*) FROM webhook_endpoints WHERE account_id = @account_id::uuid AND managed_by IS NULL;

-- name: LockAccount :exec
-- Registrations of one account wait for each other, so that none slips past the limit.
SELECT pg_advisory_xact_lock(hashtextextended('webhook_endpoints ' || (@account_id::uuid)::text, 0));

-- name: DeliveriesOfEndpoint :many
-- Of the account's own events, and of those that are everyone's.
SELECT d.id, d.event_id, ev.kind, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_error, d.created_at,
       d.finished_at
FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
WHERE d.endpoint_id = @endpoint_id AND d.id < @before
  AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid)
ORDER BY d.id DESC LIMIT @page;

-- name: HasDelivery :one
SELECT EXISTS (
    SELECT FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
    WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
      AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid));

-- name: CountByHand :one
-- How many deliveries that somebody asked for are pending, counted up to most.
SELECT count(*) FROM (
    SELECT FROM webhook_deliveries d WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending' AND d.by_hand LIMIT @most) p;

-- name: RecordForEndpoint :one
-- An event for one endpoint alone, whatever it subscribed to.
WITH event AS (
    INSERT INTO webhook_events (id, kind, account_id, body) VALUES (@event_id, @kind, @account_id, @body) RETURNING id
)
INSERT INTO webhook_deliveries (id, event_id, endpoint_id, by_hand)
SELECT webhook_new_id(), event.id, @endpoint_id::uuid, true FROM event
RETURNING id;
