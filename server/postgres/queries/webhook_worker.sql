-- The worker's statements (server/webhooks/delivery).

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
    SELECT d.id, d.lease_id IS NOT NULL AS taken_over, d.lease_until FROM webhook_deliveries d
    WHERE d.id = ANY (@ids::uuid[])
      AND d.id >= (SELECT id FROM asked ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM asked ORDER BY id DESC LIMIT 1)
      AND CASE WHEN d.state = 'pending' AND d.next_attempt_at <= now() AND (d.lease_until IS NULL OR d.lease_until <= now())
          THEN d.attempt - d.lost_attempts - (d.lease_id IS NOT NULL)::int < @max_attempts::int
           AND d.lost_attempts + (d.lease_id IS NOT NULL)::int < @max_lost::int
          ELSE false END
      AND EXISTS (SELECT FROM webhook_events ev WHERE ev.id = d.event_id OFFSET 0)
    FOR UPDATE OF d SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT id, lease_until FROM idle WHERE taken_over
), leased AS (
    UPDATE webhook_deliveries d
    SET attempt = d.attempt + 1, lost_attempts = d.lost_attempts + (d.lease_id IS NOT NULL)::int, lease_id = @lease_id::uuid,
        lease_until = now() + make_interval(secs => @term_seconds::float8),
        relay_at = greatest(d.relay_at, now() + make_interval(secs => @term_seconds::float8)), parked = false
    FROM webhook_endpoints e
    WHERE d.id = ANY (ARRAY(SELECT id FROM idle))
      AND d.id >= (SELECT id FROM idle ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM idle ORDER BY id DESC LIMIT 1)
      AND e.id = d.endpoint_id AND e.status = 'enabled'
    RETURNING d.id, d.attempt, d.lost_attempts, d.event_id, d.endpoint_id, d.created_at, e.url, e.updated_at
), log AS (
    INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms, failure)
    SELECT l.id, l.attempt - 1, lost.lease_until - make_interval(secs => @term_seconds::float8), 0, 'worker_lost'
    FROM lost JOIN leased l ON l.id = lost.id
    ON CONFLICT (delivery_id, attempt) DO NOTHING)
SELECT l.id, l.attempt, l.lost_attempts, l.event_id, l.endpoint_id, l.created_at, l.url, l.updated_at,
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
SET attempt = d.attempt - 1, lease_id = NULL, lease_until = NULL,
    relay_at = now() + make_interval(secs => @delay_seconds::float8)
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt) u
WHERE d.id = u.id AND d.id = ANY (@ids::uuid[])
  AND CASE WHEN d.attempt = u.attempt AND d.lease_id = @lease_id::uuid THEN d.state = 'pending' ELSE false END;

-- name: Complete :many
-- The fence: a worker whose lease has passed to another changes nothing of the delivery. Its try is logged all the same,
-- for it was made. Whether a try is left, and how long the wait for it is at least, is asked of the row: since it was
-- leased, an outcome that came late may have made a lost try count (TellLate).
WITH u AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@states::text[]) AS state,
           unnest(@statuses::int[]) AS status, unnest(@failures::text[]) AS failure, unnest(@delays::float8[]) AS delay,
           unnest(@began::timestamptz[]) AS began, unnest(@millis::int[]) AS millis, unnest(@responses::text[]) AS response,
           @least_delay::float8 AS least, @factor::float8 AS factor, @max_attempts::int AS most,
           generate_series(1, cardinality(@ids::uuid[]))
), log AS (
    INSERT INTO webhook_attempts (delivery_id, attempt, began_at, duration_ms, status, failure, response)
    SELECT u.id, u.attempt, u.began, u.millis, nullif(u.status, 0), u.failure, u.response FROM u
    ON CONFLICT (delivery_id, attempt) DO NOTHING
)
UPDATE webhook_deliveries d
SET state = CASE WHEN u.state = 'pending' AND d.attempt - d.lost_attempts >= u.most THEN 'failed' ELSE u.state END,
    last_status = nullif(u.status, 0), last_failure = u.failure, lease_id = NULL, lease_until = NULL,
    next_attempt_at = CASE WHEN u.state = 'pending'
        THEN now() + make_interval(secs => greatest(u.delay, u.least * power(u.factor, least(d.attempt - d.lost_attempts, u.most) - 1)))
        ELSE d.next_attempt_at END,
    relay_at = CASE WHEN u.state = 'pending'
        THEN now() + make_interval(secs => greatest(u.delay, u.least * power(u.factor, least(d.attempt - d.lost_attempts, u.most) - 1)))
        ELSE d.relay_at END,
    finished_at = CASE WHEN u.state = 'pending' AND d.attempt - d.lost_attempts < u.most THEN NULL ELSE now() END
FROM u
WHERE d.id = u.id AND d.id = ANY (@ids::uuid[])
  AND d.id >= (SELECT id FROM u ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM u ORDER BY id DESC LIMIT 1)
  AND CASE WHEN d.attempt = u.attempt AND d.lease_id = @lease_id::uuid THEN d.state = 'pending' ELSE false END
RETURNING d.id;

-- name: TellLate :exec
-- Outcomes that came after their leases had passed on: they take the place of what was logged of their tries as lost, and
-- these tries count again. Where one of them succeeded the event has arrived, whoever has the delivery now; where nobody
-- has it and they were its last, it has failed as it had failed last.
WITH u AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@attempts::int[]) AS attempt, unnest(@statuses::int[]) AS status,
           unnest(@failures::text[]) AS failure, unnest(@began::timestamptz[]) AS began, unnest(@millis::int[]) AS millis,
           unnest(@responses::text[]) AS response
), late AS (
    UPDATE webhook_attempts t
    SET began_at = u.began, duration_ms = u.millis, status = nullif(u.status, 0), failure = u.failure, response = u.response
    FROM u
    WHERE t.delivery_id = u.id AND t.delivery_id = ANY (@ids::uuid[]) AND t.attempt = u.attempt AND t.failure = 'worker_lost'
    RETURNING t.delivery_id, t.status, t.failure
), known AS (
    SELECT delivery_id, count(*)::int AS tries, bool_or(failure = '') AS arrived, max(status) FILTER (WHERE failure = '') AS status
    FROM late GROUP BY delivery_id
)
UPDATE webhook_deliveries d
SET lost_attempts = greatest(d.lost_attempts - k.tries, 0),
    state = CASE WHEN k.arrived THEN 'delivered'
                 WHEN d.lease_id IS NULL AND d.attempt - greatest(d.lost_attempts - k.tries, 0) >= @max_attempts::int THEN 'failed'
                 ELSE 'pending' END,
    finished_at = CASE WHEN k.arrived OR d.lease_id IS NULL AND d.attempt - greatest(d.lost_attempts - k.tries, 0) >= @max_attempts::int
                       THEN now() END,
    last_status = CASE WHEN k.arrived THEN k.status ELSE d.last_status END,
    last_failure = CASE WHEN k.arrived THEN '' ELSE d.last_failure END,
    lease_id = CASE WHEN NOT k.arrived THEN d.lease_id END,
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
UPDATE webhook_deliveries d SET state = 'cancelled', lease_id = NULL, lease_until = NULL, finished_at = now()
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
          THEN d.lost_attempts + (d.lease_id IS NOT NULL)::int >= @max_lost::int
            OR d.attempt - d.lost_attempts - (d.lease_id IS NOT NULL)::int >= @max_attempts::int
          ELSE false END
    FOR UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries d
SET state = 'failed', lost_attempts = d.lost_attempts + (d.lease_id IS NOT NULL)::int,
    last_failure = CASE WHEN d.lease_id IS NULL AND d.last_failure <> '' THEN d.last_failure ELSE 'worker_lost' END,
    lease_id = NULL, lease_until = NULL, finished_at = now()
WHERE d.id = ANY (ARRAY(SELECT id FROM hopeless));

-- name: Recall :many
-- What was put off because a lane was full, the oldest first: pending, nobody's, not waiting for a retry, and marked as
-- parked. The caller holds it as ClaimDue's does.
WITH parked AS MATERIALIZED (
    SELECT p.id FROM webhook_deliveries p
    WHERE p.endpoint_id = @endpoint_id AND p.state = 'pending' AND p.created_at >= @after AND p.next_attempt_at <= now()
      AND p.parked
      AND (p.lease_until IS NULL OR p.lease_until <= now())
    ORDER BY p.created_at LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries d SET relay_at = now() + make_interval(secs => @hold_seconds::float8), parked = false
WHERE d.id = ANY (ARRAY(SELECT id FROM parked))
  AND d.id >= (SELECT id FROM parked ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM parked ORDER BY id DESC LIMIT 1)
RETURNING d.id, d.created_at;

-- name: DatabaseTime :one
SELECT clock_timestamp()::timestamptz;

-- name: AddPartition :one
SELECT webhook_add_partition(@kind::text, @starts::timestamptz, @ends::timestamptz)::text;

-- name: EndPending :one
SELECT webhook_end_pending(@name::text, @bound::uuid, @most::int)::bigint;

-- name: RetirePartition :one
SELECT webhook_retire_partition(@kind::text, @name::text)::text;

-- name: DropRetired :one
SELECT webhook_drop_retired()::bigint;

-- name: SweepDefault :one
SELECT webhook_sweep_default(@bound::uuid, @most::int)::bigint;
