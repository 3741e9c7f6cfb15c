-- Copies the newest delivery of the endpoint $1, with its event, $2 times, spread evenly over the $3 days before now. In each
-- hundred copies one is pending, three failed, one was cancelled, and the others were delivered. Columns that are not named
-- here are copied as they are.
WITH pattern AS MATERIALIZED (
    SELECT d AS delivery, ev AS event FROM webhook_deliveries d JOIN webhook_events ev ON ev.id = d.event_id
    WHERE d.endpoint_id = $1 ORDER BY d.id DESC LIMIT 1
), copy AS MATERIALIZED (
    -- A UUIDv7 of the time: as the product's, they grow.
    SELECT c.at, c.state, CASE WHEN c.n % 2 = 0 THEN 'mock_attempt.scored' ELSE 'mock_attempt.submitted' END AS kind,
           (t.prefix || '7' || substr(md5('delivery' || c.n), 1, 3) || '8' || substr(md5('delivery' || c.n), 4, 15))::uuid AS delivery_id,
           (t.prefix || '7' || substr(md5('event' || c.n), 1, 3) || '8' || substr(md5('event' || c.n), 4, 15))::uuid AS event_id
    FROM (
        SELECT n, now() - $3::int * interval '1 day' * n / $2::int AS at,
               CASE n % 100 WHEN 0 THEN 'pending' WHEN 1 THEN 'failed' WHEN 2 THEN 'failed' WHEN 3 THEN 'failed' WHEN 4 THEN 'cancelled'
                            ELSE 'delivered' END AS state
        FROM generate_series(1, $2::int) n) c
    CROSS JOIN LATERAL (SELECT lpad(to_hex((extract(epoch FROM c.at) * 1000)::bigint), 12, '0') AS prefix) t
    ORDER BY c.n DESC
), events AS (
    INSERT INTO webhook_events
    SELECT made.* FROM copy c, pattern p,
        jsonb_populate_record(p.event, jsonb_build_object('id', c.event_id, 'kind', c.kind, 'created_at', c.at)) AS made
)
INSERT INTO webhook_deliveries
SELECT made.* FROM copy c, pattern p, jsonb_populate_record(p.delivery, jsonb_build_object(
    'id', c.delivery_id, 'event_id', c.event_id, 'event', c.kind, 'state', c.state, 'created_at', c.at,
    'attempt', CASE c.state WHEN 'failed' THEN 6 ELSE 1 END,
    'next_attempt_at', CASE c.state WHEN 'pending' THEN now() + interval '1 hour' ELSE c.at END,
    'finished_at', CASE WHEN c.state <> 'pending' THEN c.at END,
    'last_status', CASE c.state WHEN 'delivered' THEN 204 ELSE 503 END,
    'last_failure', CASE c.state WHEN 'delivered' THEN '' ELSE 'status' END)) AS made
