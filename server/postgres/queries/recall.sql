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
