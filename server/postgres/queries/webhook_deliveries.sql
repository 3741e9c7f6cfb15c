-- The deliveries of an account: list, redeliver, recover.

-- name: ReadByIndex :exec
-- Until the transaction ends, statements read by index, in the index's order. Endpoints differ in how many of their deliveries have a
-- state, which statistics do not show. Without these settings, the planner overestimates rows, and reads and sorts whole partitions.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('jit', 'off', true);

-- name: DeliveriesOfEndpoint :many
-- Deliveries of the account's own events and of events for all accounts, newest first. An empty state or event means any. The
-- statement reads at most walk rows. If it reads so many, it returns the last of them too, matching or not: ends is true there. A
-- delivery's id is not older than its created_at, so the bound on the id leaves out none. endpoint_ids has one endpoint: with = in place of
-- ANY, the order by id alone would do, and the primary key has that for the deliveries of all endpoints. OFFSET 0 makes the
-- condition on the event a lookup by index.
SELECT w.id, w.event_id, w.event, w.state, w.attempt, w.next_attempt_at, w.last_status, w.last_failure, w.created_at, w.finished_at,
       (w.place = @walk::int)::bool AS ends, m.matches::bool AS matches
FROM (
    SELECT d.endpoint_id, d.id, d.event_id, d.event, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_failure, d.created_at, d.finished_at,
           row_number() OVER (ORDER BY d.endpoint_id, d.id DESC) AS place
    FROM webhook_deliveries d
    WHERE d.endpoint_id = ANY (@endpoint_ids::uuid[]) AND d.id < @before AND d.id >= uuidv7_at(greatest(@since::timestamptz, 'epoch'))
    ORDER BY d.endpoint_id, d.id DESC LIMIT @walk) w
CROSS JOIN LATERAL (
    SELECT (@state::text = '' OR w.state = @state) AND (@event::text = '' OR w.event = @event) AND w.created_at >= @since AND EXISTS (
        SELECT FROM webhook_events ev
        WHERE ev.id = w.event_id AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid) OFFSET 0) AS matches OFFSET 0) m
WHERE m.matches OR w.place = @walk
ORDER BY w.endpoint_id, w.id DESC LIMIT @page;

-- name: EndedDeliveries :many
-- The same of failed or of cancelled deliveries. The list of both states lets the planner use their index.
SELECT w.id, w.event_id, w.event, w.state, w.attempt, w.next_attempt_at, w.last_status, w.last_failure, w.created_at, w.finished_at,
       (w.place = @walk::int)::bool AS ends, m.matches::bool AS matches
FROM (
    SELECT d.endpoint_id, d.id, d.event_id, d.event, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_failure, d.created_at, d.finished_at,
           row_number() OVER (ORDER BY d.endpoint_id, d.id DESC) AS place
    FROM webhook_deliveries d
    WHERE d.endpoint_id = ANY (@endpoint_ids::uuid[]) AND d.id < @before AND d.id >= uuidv7_at(greatest(@since::timestamptz, 'epoch'))
      AND d.state IN ('failed', 'cancelled') AND d.state = @state
    ORDER BY d.endpoint_id, d.id DESC LIMIT @walk) w
CROSS JOIN LATERAL (
    SELECT (@event::text = '' OR w.event = @event) AND w.created_at >= @since AND EXISTS (
        SELECT FROM webhook_events ev
        WHERE ev.id = w.event_id AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid) OFFSET 0) AS matches OFFSET 0) m
WHERE m.matches OR w.place = @walk
ORDER BY w.endpoint_id, w.id DESC LIMIT @page;

-- name: CountPending :one
-- Counts at most bound.
SELECT count(*) FROM (
    SELECT FROM webhook_deliveries d WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending' ORDER BY d.next_attempt_at LIMIT @bound) p;

-- name: PendingDeliveries :many
-- The same of pending deliveries, of which the endpoint has at most walk: it reads them all by their index and sorts them, so it has no
-- end.
WITH waiting AS MATERIALIZED (
    SELECT d.id, d.event_id, d.event, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_failure, d.created_at, d.finished_at
    FROM webhook_deliveries d WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending'
    ORDER BY d.next_attempt_at LIMIT @walk
), newest AS MATERIALIZED (
    SELECT q.id, q.event_id, q.event, q.state, q.attempt, q.next_attempt_at, q.last_status, q.last_failure, q.created_at, q.finished_at
    FROM waiting q
    WHERE q.id < @before::uuid AND q.created_at >= @since::timestamptz AND (@event::text = '' OR q.event = @event)
    ORDER BY q.id DESC
)
SELECT w.id, w.event_id, w.event, w.state, w.attempt, w.next_attempt_at, w.last_status, w.last_failure, w.created_at, w.finished_at,
       false AS ends, true AS matches
FROM newest w
WHERE EXISTS (
    SELECT FROM webhook_events ev
    WHERE ev.id = w.event_id AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid) OFFSET 0)
ORDER BY w.id DESC LIMIT @page;

-- name: DeliveryOfEndpoint :one
-- Under the same condition on the event.
SELECT d.id, d.event_id, d.event, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_failure, d.created_at,
       d.finished_at
FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
  AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid);

-- name: HasDelivery :one
SELECT EXISTS (
    SELECT FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
    WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
      AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid));

-- name: AttemptsOfDelivery :many
SELECT attempt, began_at, duration_ms, status, failure, response FROM webhook_attempts
WHERE delivery_id = @delivery_id ORDER BY attempt;

-- name: NewID :one
-- An id by the database's clock: the id decides which partition holds a row.
SELECT uuidv7()::uuid;

-- name: RecordForEndpoint :one
-- An event for one endpoint only, whatever it subscribes to.
WITH event AS (
    INSERT INTO webhook_events (id, kind, account_id, body) VALUES (@event_id, @kind, @account_id, @body) RETURNING id
)
INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event)
SELECT uuidv7(), event.id, @endpoint_id::uuid, @kind FROM event
RETURNING id;

-- name: Redeliver :one
-- Sends the event of a delivery again, as a new delivery with its own attempts, and returns its id. If a delivery of the event to the
-- endpoint is pending, the statement returns that one instead, and makes its next attempt due now, unless a worker has it. The caller has
-- locked the endpoint's row. Each new delivery supersedes the earlier ones that have ended, so at most one is open: pending, or failed or
-- cancelled and not superseded. With one condition for all states, the plan would read each delivery of the event that arrived.
WITH asked AS MATERIALIZED (
    SELECT d.id, d.event_id, d.event, coalesce(d.original_id, d.id) AS first_id
    FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
    WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
      AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid)
), open AS MATERIALIZED (
    SELECT f.id, f.state FROM webhook_deliveries f
    WHERE f.id = (SELECT first_id FROM asked) AND f.state <> 'delivered' AND NOT f.superseded
    UNION ALL
    SELECT r.id, r.state FROM webhook_deliveries r
    WHERE r.original_id = (SELECT first_id FROM asked) AND r.state IN ('pending', 'failed', 'cancelled') AND NOT r.superseded
), pending AS MATERIALIZED (
    SELECT id FROM open WHERE state = 'pending' ORDER BY id DESC LIMIT 1
), hurried AS (
    UPDATE webhook_deliveries d SET next_attempt_at = now()
    WHERE d.id = (
        SELECT l.id FROM webhook_deliveries l WHERE l.id = (SELECT id FROM pending) AND l.lease_id IS NULL
          AND l.next_attempt_at > now() AND l.state NOT IN ('delivered', 'failed', 'cancelled') FOR UPDATE SKIP LOCKED)
), marked AS (
    UPDATE webhook_deliveries d SET superseded = true
    WHERE d.id = ANY (ARRAY(SELECT id FROM open WHERE NOT EXISTS (SELECT FROM pending)))
      AND d.id >= (SELECT id FROM open ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM open ORDER BY id DESC LIMIT 1)
), sent AS (
    INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event, original_id)
    SELECT uuidv7(), event_id, @endpoint_id::uuid, event, first_id FROM asked WHERE NOT EXISTS (SELECT FROM pending)
    RETURNING id
)
SELECT id FROM sent UNION ALL SELECT id FROM pending;

-- name: RecoverDeliveries :one
-- Sends the events again whose last delivery to the endpoint has failed or was cancelled since a time, the earliest end first,
-- unless another delivery of the event is pending or was delivered since then. If send is false, it only counts them. The caller
-- that sends has locked the endpoint's row. The deliveries of one event to one endpoint are the first one and those with its id as
-- original_id. A superseded delivery leaves the index that this statement walks, so the next call begins where this one ended. A failed or
-- cancelled delivery that is not superseded is the last one of its event (Redeliver). The statement looks for page rows, one more
-- than most, to tell whether another call is needed. OFFSET 0 makes each condition a look-up by index, of one row at most; a join would
-- read a whole table, and an OR every delivery of the event that arrived.
WITH missed AS MATERIALIZED (
    SELECT d.id, d.event_id, d.event, coalesce(d.original_id, d.id) AS first_id, d.finished_at
    FROM webhook_deliveries d
    WHERE d.endpoint_id = @endpoint_id AND d.state IN ('failed', 'cancelled') AND NOT d.superseded
      AND d.finished_at >= @since::timestamptz
      AND EXISTS (
          SELECT FROM webhook_events ev
          WHERE ev.id = d.event_id AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid) OFFSET 0)
      AND NOT EXISTS (
          SELECT FROM webhook_deliveries f
          WHERE f.id = d.original_id AND (f.state = 'pending' OR f.state = 'delivered' AND f.finished_at >= @since::timestamptz)
          OFFSET 0)
      AND NOT EXISTS (
          SELECT FROM webhook_deliveries r
          WHERE r.original_id = coalesce(d.original_id, d.id) AND r.state = 'pending' AND NOT r.superseded
          OFFSET 0)
      AND NOT EXISTS (
          SELECT FROM webhook_deliveries r
          WHERE r.original_id = coalesce(d.original_id, d.id) AND r.state = 'delivered' AND NOT r.superseded
            AND r.finished_at >= @since::timestamptz
          OFFSET 0)
    ORDER BY d.finished_at, d.id LIMIT @page
), chosen AS MATERIALIZED (
    SELECT id, event_id, event, first_id FROM missed ORDER BY finished_at, id LIMIT @most
), marked AS (
    UPDATE webhook_deliveries d SET superseded = true
    WHERE @send::boolean AND d.id = ANY (ARRAY(SELECT id FROM chosen))
      AND d.id >= (SELECT id FROM chosen ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM chosen ORDER BY id DESC LIMIT 1)
), sent AS (
    INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event, original_id)
    SELECT uuidv7(), event_id, @endpoint_id::uuid, event, first_id FROM chosen WHERE @send
    RETURNING id
)
SELECT (SELECT count(*) FROM chosen) AS deliveries, (SELECT count(*) FROM missed) AS missed;
