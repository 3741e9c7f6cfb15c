-- The deliveries of an account: list, redeliver, recover.

-- name: DeliveriesOfEndpoint :many
-- Only deliveries of the account's own events and of events for all accounts.
SELECT d.id, d.event_id, ev.kind, d.state, d.attempt, d.next_attempt_at, d.last_status, d.last_failure, d.created_at,
       d.finished_at
FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
WHERE d.endpoint_id = @endpoint_id AND d.id < @before
  AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid)
ORDER BY d.id DESC LIMIT @page;

-- name: DeliveryOfEndpoint :one
-- The same columns and conditions as DeliveriesOfEndpoint.
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
INSERT INTO webhook_deliveries (id, event_id, endpoint_id)
SELECT uuidv7(), event.id, @endpoint_id::uuid FROM event
RETURNING id;

-- name: Redeliver :one
-- Sends the event of a delivery again, as a new delivery with its own attempts. The caller has locked the endpoint's row.
WITH asked AS MATERIALIZED (
    SELECT d.id, d.event_id, coalesce(d.original_id, d.id) AS first_id
    FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
    WHERE d.id = @delivery_id AND d.endpoint_id = @endpoint_id
      AND (ev.account_id IS NULL OR ev.account_id = @account_id::uuid)
), marked AS (
    UPDATE webhook_deliveries d SET superseded = true
    WHERE d.id = @delivery_id AND d.state IN ('failed', 'cancelled') AND EXISTS (SELECT FROM asked)
)
INSERT INTO webhook_deliveries (id, event_id, endpoint_id, original_id)
SELECT uuidv7(), event_id, @endpoint_id::uuid, first_id FROM asked
RETURNING id;

-- name: RecoverDeliveries :one
-- Sends the events again whose last delivery to the endpoint has failed or was cancelled since a time, the earliest end first,
-- unless another delivery of the event is pending or was delivered since then. The caller has locked the endpoint's row. The
-- deliveries of one event to one endpoint are the first one and those with its id as original_id. A superseded delivery leaves the
-- index that this statement walks, so the next call begins where this one ended. The statement looks for page rows, one more
-- than most, to tell whether another call is needed. OFFSET 0 makes each condition a lookup by index; a join would read a whole
-- table.
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
