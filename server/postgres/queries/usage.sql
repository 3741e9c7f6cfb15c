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
-- oldest_seconds is the age of the oldest waiting batch, 0 if there is none. due_seconds is the same, with the age of a batch that could
-- not be added counted from the last try.
SELECT count(b.skipped_at) AS skipped, now()::timestamptz AS at,
       coalesce(greatest(extract(epoch FROM now() - min(b.written_at) FILTER (WHERE b.skipped_at IS NULL)), 0), 0)::float8 AS oldest_seconds,
       coalesce(greatest(extract(epoch FROM now() - min(coalesce(b.tried_at, b.written_at)) FILTER (WHERE b.skipped_at IS NULL)), 0), 0)::float8
           AS due_seconds
FROM key_usage_batches b;

-- name: LockRollUp :one
-- Reports whether the transaction may roll up. It also asks for a plan made for the statement's values: a cached plan,
-- made while there was little usage, would read all usage for each key. And it bounds the wait for a row that another transaction
-- has locked.
SELECT pg_try_advisory_xact_lock(hashtextextended('examprep.key_usage', 0)) AS locked
FROM set_config('plan_cache_mode', 'force_custom_plan', true) p, set_config('lock_timeout', @lock_timeout::text, true) l;

-- name: RollUpUsage :one
-- Adds the oldest batches to key_usage, deletes them, and returns their number. The caller holds the lock of LockRollUp.
-- Counts of a key that does not exist are dropped. A key with a row of the day exists, which saves a look-up. A batch that was
-- tried after a time is not taken.
WITH oldest AS MATERIALIZED (
    -- By itself: in a join, PostgreSQL could run it once per row, and so delete more batches than were asked for.
    SELECT o.writer, o.batch FROM key_usage_batches o
    WHERE o.skipped_at IS NULL AND coalesce(o.tried_at, '-infinity') <= @until::timestamptz
    ORDER BY o.tried_at NULLS FIRST, o.written_at, o.writer, o.batch LIMIT @most::int FOR UPDATE SKIP LOCKED
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
)
SELECT count(*) AS batches FROM taken;

-- name: DivideOldestBatch :one
-- For the batch that RollUpUsage takes when it is asked for one and that it cannot add: two batches of half the keys each take its
-- place. A batch of one key is marked as skipped, or as tried. A batch whose arrays differ in length is skipped. halves is 0 then.
WITH oldest AS MATERIALIZED (
    SELECT o.writer, o.batch, o.day, o.written_at, o.tried_at, o.keys, o.requests, o.rate_limited, o.last_used, cardinality(o.keys) AS n,
           cardinality(o.keys) = ALL (ARRAY[cardinality(o.requests), cardinality(o.rate_limited), cardinality(o.last_used)]) AS whole
    FROM key_usage_batches o
    WHERE o.skipped_at IS NULL AND coalesce(o.tried_at, '-infinity') <= @until::timestamptz
    ORDER BY o.tried_at NULLS FIRST, o.written_at, o.writer, o.batch LIMIT 1 FOR UPDATE SKIP LOCKED
), halves AS (
    INSERT INTO key_usage_batches (writer, batch, day, written_at, tried_at, keys, requests, rate_limited, last_used)
    SELECT gen_random_uuid(), 0, o.day, o.written_at, o.tried_at, o.keys[h.first:h.last], o.requests[h.first:h.last],
           o.rate_limited[h.first:h.last], o.last_used[h.first:h.last]
    FROM oldest o CROSS JOIN LATERAL (VALUES (1, o.n / 2), (o.n / 2 + 1, o.n)) h (first, last)
    WHERE o.whole AND o.n > 1
    RETURNING writer
), divided AS (
    DELETE FROM key_usage_batches b USING oldest o WHERE b.writer = o.writer AND b.batch = o.batch AND o.whole AND o.n > 1
), marked AS (
    UPDATE key_usage_batches b
    SET tried_at = now(), skipped_at = CASE WHEN @skip::boolean OR NOT o.whole THEN now() END
    FROM oldest o
    WHERE b.writer = o.writer AND b.batch = o.batch AND NOT (o.whole AND o.n > 1)
)
SELECT count(*) AS halves FROM halves;

-- name: EndedWriters :many
-- Writers that ended long ago: a living process has written since.
SELECT id FROM key_usage_writers WHERE written_at < now() - interval '30 days';

-- name: DropWriters :exec
-- Skips locked rows, so it never waits for another transaction.
DELETE FROM key_usage_writers WHERE id IN (
    SELECT w.id FROM key_usage_writers w WHERE w.id = ANY (@ids::uuid[]) AND w.written_at < now() - interval '30 days'
    FOR UPDATE SKIP LOCKED);

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

-- name: UsageByDay :many
-- Sums the usage of all keys of an account by day. A day without usage has no row.
SELECT u.day, sum(u.requests)::bigint AS requests, sum(u.rate_limited)::bigint AS rate_limited
FROM key_usage u WHERE u.account_id = @account_id AND u.day BETWEEN @first AND @last
GROUP BY u.day ORDER BY u.day;

-- name: CountDailyUsage :one
-- The number of rows that DailyUsage returns. The order lets the planner choose the index, so that it reads no rows of other accounts.
SELECT count(*) FROM (
    (SELECT FROM key_usage a
     WHERE @key_prefix::text = '' AND a.account_id = @account_id AND a.day BETWEEN @first AND @last
     ORDER BY a.day LIMIT @most::int)
    UNION ALL
    SELECT FROM key_usage u
    WHERE u.key_id = (SELECT k.id FROM api_keys k WHERE k.prefix = @key_prefix AND k.account_id = @account_id)
      AND u.day BETWEEN @first AND @last
    LIMIT @most::int) found;

-- name: AccountHasKey :one
SELECT EXISTS (SELECT FROM api_keys k WHERE k.prefix = @key_prefix AND k.account_id = @account_id);
