-- name: AddUsageBatch :exec
-- Stores one batch of a writer, unless it is stored already. A repeated batch waits here for the statement that first
-- sent it, if that is still running.
WITH writer AS (
    INSERT INTO key_usage_writers AS w (id, batch, written_at) VALUES (@writer, @batch, now())
    ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at WHERE w.batch < excluded.batch
    RETURNING w.id
)
INSERT INTO key_usage_batches (writer, batch, day, keys, requests, rate_limited, last_used)
SELECT writer.id, @batch, @day, @keys::uuid[], @requests::bigint[], @rate_limited::bigint[], @last_used::bigint[]
FROM writer;

-- name: UsageBacklog :one
-- oldest_seconds is the age of the oldest waiting batch, 0 if there is none.
SELECT count(b.skipped_at) AS skipped,
       coalesce(greatest(extract(epoch FROM now() - min(b.written_at) FILTER (WHERE b.skipped_at IS NULL)), 0), 0)::float8 AS oldest_seconds
FROM key_usage_batches b;

-- name: LockRollUp :one
-- Reports whether the transaction may roll up. It also asks for a plan made for the statement's values: a cached plan,
-- made while there was little usage, would read all usage for each key.
SELECT pg_try_advisory_xact_lock(hashtextextended('examprep.key_usage', 0)) AS locked
FROM set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: RollUpUsage :one
-- Adds the oldest batches to key_usage, deletes them, and returns their number. The caller holds the lock of LockRollUp.
-- Counts of a key that does not exist are dropped. A key with a row of the day exists, which saves a look-up.
WITH oldest AS MATERIALIZED (
    -- By itself: in a join, PostgreSQL could run it once per row, and so delete more batches than were asked for.
    SELECT o.writer, o.batch FROM key_usage_batches o
    WHERE o.skipped_at IS NULL
    ORDER BY o.written_at, o.writer, o.batch LIMIT @most::int FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM key_usage_batches b USING oldest
    WHERE b.writer = oldest.writer AND b.batch = oldest.batch
    RETURNING b.day, b.keys, b.requests, b.rate_limited, b.last_used
), summed AS (
    SELECT c.key_id, t.day, sum(c.requests)::bigint AS requests, sum(c.rate_limited)::bigint AS rate_limited,
           timestamptz 'epoch' + nullif(max(c.last_used), 0) * interval '1 microsecond' AS used
    FROM taken t
    CROSS JOIN LATERAL (SELECT unnest(t.keys) AS key_id, unnest(t.requests) AS requests, unnest(t.rate_limited) AS rate_limited,
                               unnest(t.last_used) AS last_used) c
    GROUP BY c.key_id, t.day
), counted AS (
    SELECT s.key_id, s.day, coalesce(u.account_id, k.account_id) AS account_id, s.requests, s.rate_limited, s.used
    FROM summed s
    LEFT JOIN key_usage u ON u.key_id = s.key_id AND u.day = s.day
    LEFT JOIN api_keys k ON k.id = CASE WHEN u.key_id IS NULL THEN s.key_id END
    WHERE u.key_id IS NOT NULL OR k.id IS NOT NULL
), added AS (
    INSERT INTO key_usage AS u (key_id, day, account_id, requests, rate_limited, last_used_at)
    SELECT c.key_id, c.day, c.account_id, c.requests, c.rate_limited, c.used FROM counted c
    ORDER BY c.key_id, c.day
    ON CONFLICT (key_id, day) DO UPDATE
    SET requests = u.requests + excluded.requests, rate_limited = u.rate_limited + excluded.rate_limited,
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)
), pruned AS (
    -- Writers that ended long ago: a living process has written since.
    DELETE FROM key_usage_writers WHERE id IN (
        SELECT w.id FROM key_usage_writers w WHERE w.written_at < now() - interval '30 days'
        FOR UPDATE SKIP LOCKED)
)
SELECT count(*) AS batches FROM taken;

-- name: SkipOldestBatch :exec
-- Marks the batch that RollUpUsage takes when it is asked for one.
UPDATE key_usage_batches b SET skipped_at = now()
WHERE (b.writer, b.batch) = (SELECT o.writer, o.batch FROM key_usage_batches o
    WHERE o.skipped_at IS NULL
    ORDER BY o.written_at, o.writer, o.batch LIMIT 1 FOR UPDATE SKIP LOCKED);

-- name: DailyUsage :many
-- Returns the usage of an account, or of its key with this prefix, if it is not empty. Returns any @most of the matching
-- rows: to detect truncation, pass the limit plus one. Each branch only runs if its condition on the prefix holds.
SELECT u.day, k.prefix AS key_prefix, u.requests, u.rate_limited
FROM (SELECT a.key_id, a.day, a.requests, a.rate_limited FROM key_usage a
      WHERE @key_prefix::text = '' AND a.account_id = @account_id AND a.day BETWEEN @first AND @last
      LIMIT @most::int) u
JOIN api_keys k ON k.id = u.key_id
UNION ALL
SELECT u.day, @key_prefix, u.requests, u.rate_limited FROM key_usage u
WHERE u.key_id = (SELECT k.id FROM api_keys k WHERE k.prefix = @key_prefix AND k.account_id = @account_id)
  AND u.day BETWEEN @first AND @last
ORDER BY day, key_prefix;

-- name: AccountHasKey :one
SELECT EXISTS (SELECT FROM api_keys k WHERE k.prefix = @key_prefix AND k.account_id = @account_id);
