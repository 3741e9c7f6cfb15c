-- Deliveries as their owners see them: list, redeliver, recover, cancel.

-- name: DeliveriesOfEndpoint :many
-- Of the account's own events, and of those that are everyone's.
SELECT d.id, d.event_id, ev.kind, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_failure, d.created_at,
       d.finished_at
FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
WHERE d.endpoint_id = @endpoint_id AND d.id < @before
  AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid)
ORDER BY d.id DESC LIMIT @page;

-- name: DeliveryOfEndpoint :one
-- As DeliveriesOfEndpoint shows it.
SELECT d.id, d.event_id, ev.kind, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_failure, d.created_at,
       d.finished_at
FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
  AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid);

-- name: HasDelivery :one
SELECT EXISTS (
    SELECT FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
    WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
      AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid));

-- name: TriesOfDelivery :many
SELECT attempt, began_at, duration_ms, status, failure, response FROM webhook_attempts
WHERE delivery_id = @delivery_id ORDER BY attempt;

-- name: RecordForEndpoint :one
-- An event for one endpoint alone, whatever it subscribed to.
WITH event AS (
    INSERT INTO webhook_events (id, kind, account_id, body) VALUES (@event_id, @kind, @account_id, @body) RETURNING id
)
INSERT INTO webhook_deliveries (id, event_id, endpoint_id, by_hand)
SELECT uuidv7(), event.id, @endpoint_id::uuid, true FROM event
RETURNING id;

-- name: CountByHand :one
-- How many deliveries that somebody asked for are pending, counted up to most.
SELECT count(*) FROM (
    SELECT FROM webhook_deliveries d WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending' AND d.by_hand LIMIT @most) p;

-- name: SendAgain :one
-- The event of a delivery goes out once more, as a delivery of its own with tries of its own.
WITH asked AS MATERIALIZED (
    SELECT d.id, d.event_id, coalesce(d.original_id, d.id) AS first_id
    FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
    WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
      AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid)
), marked AS (
    UPDATE webhook_deliveries d SET superseded = true
    WHERE d.id = @delivery_id AND d.state IN ('failed', 'cancelled') AND EXISTS (SELECT FROM asked)
)
INSERT INTO webhook_deliveries (id, event_id, endpoint_id, original_id, by_hand)
SELECT uuidv7(), event_id, @endpoint_id::uuid, first_id, true FROM asked
RETURNING id;

-- name: SendMissedAgain :one
-- Sends the events again whose last delivery to the endpoint came to a bad end since a moment, the earliest end first,
-- unless another delivery of the event is pending or has arrived since that moment. The deliveries of one event to one
-- endpoint are the first and those that repeat it. What is sent again leaves the index that is walked here: the next call
-- begins where this one ended. One more than most is looked for (page), to tell whether it is worth another call. OFFSET 0
-- keeps what is asked of each row a look-up by index, never a join that would read a whole table.
WITH missed AS MATERIALIZED (
    SELECT d.id, d.event_id, coalesce(d.original_id, d.id) AS first_id, d.finished_at
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
          WHERE r.original_id = coalesce(d.original_id, d.id) AND r.id <> d.id
            AND (r.id > d.id OR r.state = 'pending' OR r.state = 'delivered' AND r.finished_at >= @since::timestamptz)
          OFFSET 0)
    ORDER BY d.finished_at, d.id LIMIT @page
), chosen AS MATERIALIZED (
    SELECT id, event_id, first_id FROM missed ORDER BY finished_at, id LIMIT @most
), marked AS (
    UPDATE webhook_deliveries d SET superseded = true
    WHERE d.id = ANY (ARRAY(SELECT id FROM chosen))
      AND d.id >= (SELECT id FROM chosen ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM chosen ORDER BY id DESC LIMIT 1)
), sent AS (
    INSERT INTO webhook_deliveries (id, event_id, endpoint_id, original_id)
    SELECT uuidv7(), event_id, @endpoint_id::uuid, first_id FROM chosen
    RETURNING id
)
SELECT (SELECT count(*) FROM sent) AS deliveries, (SELECT count(*) FROM missed) AS missed;

-- name: LockRecovery :one
-- One recovery of an endpoint at a time, and none beside a redelivery: each sees what the one before has sent. Nobody
-- waits for it in a connection. Returns the time by the clock that finished_at is taken from.
SELECT pg_try_advisory_xact_lock(hashtextextended('webhook recovery ' || (@endpoint_id::uuid)::text, 0))::boolean AS locked,
       clock_timestamp()::timestamptz AS now;

-- name: LockRedelivery :one
-- Redeliveries keep recoveries of the endpoint out, and not each other.
SELECT pg_try_advisory_xact_lock_shared(hashtextextended('webhook recovery ' || (@endpoint_id::uuid)::text, 0))::boolean AS locked;

-- name: CancelPending :execrows
-- So many of the deliveries to an endpoint that is no longer enabled, or gone. The rest is refused a lease, and cancelled
-- then. So are rows that another statement holds: with no one waiting for a row, statements of many cannot deadlock.
WITH pending AS MATERIALIZED (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.endpoint_id = @endpoint_id AND d.state = 'pending'
      AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = @endpoint_id AND e.status = 'enabled')
    LIMIT @chunk FOR UPDATE OF d SKIP LOCKED
)
UPDATE webhook_deliveries d SET state = 'cancelled', lease_id = NULL, lease_until = NULL, finished_at = now()
WHERE d.id = ANY (ARRAY(SELECT id FROM pending))
  AND d.id >= (SELECT id FROM pending ORDER BY id LIMIT 1) AND d.id <= (SELECT id FROM pending ORDER BY id DESC LIMIT 1);
