-- name: AddUsageBatch :exec
-- One batch of a writer's counts, unless it is in already. A repeated batch waits here for the statement that first brought
-- it, if that is still running.
WITH writer AS (
    INSERT INTO key_usage_writers AS w (id, batch, written_at) VALUES (@writer, @batch, now())
    ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at WHERE w.batch < excluded.batch
    RETURNING w.id
)
INSERT INTO key_usage_batches (writer, batch, share, day, keys, requests, rate_limited, last_used)
SELECT writer.id, @batch, @share, @day, @keys::uuid[], @requests::bigint[], @rate_limited::bigint[], @last_used::bigint[]
FROM writer;

-- name: DueUsage :one
-- The next share after the last one whose oldest batch is as old as it is to become. Shares grow to different ages, once to
-- twice the given one: they become due one after the other, though pods write all of them at once. Where none is due, share
-- is the last one. oldest_us is the age of the oldest batch of all, 0 where none waits.
WITH asked AS (
    SELECT @age_us::bigint AS age, @shares::float8 AS shares, @last::smallint AS last
), waiting AS (
    SELECT a.share, min(a.written_at) AS oldest FROM key_usage_batches a GROUP BY a.share
), next AS (
    SELECT w.share FROM asked, waiting w
    WHERE w.oldest <= now() - asked.age * (1 + w.share / asked.shares) * interval '1 microsecond'
    ORDER BY w.share <= asked.last, w.share
    LIMIT 1
)
SELECT EXISTS (SELECT FROM next) AS due, coalesce((SELECT next.share FROM next), asked.last)::smallint AS share,
       (SELECT coalesce(greatest(extract(epoch FROM now() - min(w.oldest)), 0), 0) * 1000000 FROM waiting w)::bigint AS oldest_us
FROM asked;

-- name: RollUpUsage :one
-- Adds batches of a share to key_usage, the oldest first, and returns how many. One pod at a time is at a share (an advisory
-- lock of its own, tried before any row): another adds none, since it would wait for rows of the same keys. Rows are taken in one
-- order all the same, so that a pod of a release that divides the keys otherwise never waits in a circle, and neighbours are
-- looked up one after the other. What is counted for a key that does not exist is left out; a key that has a row of the day
-- does, which spares the look at its own. unnoted are the keys that had no use on the day before (TouchKeys), used when they
-- were last.
WITH alone AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('examprep.key_usage ' || (@share::smallint)::text, 0)) AS locked
), oldest AS MATERIALIZED (
    -- By itself: looked up once for each row of a join, it would skip those it has given, and give more than it was asked for.
    SELECT o.writer, o.batch FROM key_usage_batches o
    WHERE o.share = @share AND (SELECT alone.locked FROM alone)
    ORDER BY o.written_at LIMIT @most::int FOR UPDATE SKIP LOCKED
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
    ORDER BY c.key_id, t.day
), counted AS (
    SELECT s.key_id, s.day, coalesce(u.account_id, k.account_id) AS account_id, s.requests, s.rate_limited, s.used,
           s.used IS NOT NULL AND u.last_used_at IS NULL AS unnoted
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
SELECT (SELECT count(*) FROM taken) AS batches,
       ARRAY(SELECT c.key_id FROM counted c WHERE c.unnoted ORDER BY c.key_id, c.day)::uuid[] AS unnoted,
       ARRAY(SELECT c.used FROM counted c WHERE c.unnoted ORDER BY c.key_id, c.day)::timestamptz[] AS used;

-- name: PruneUsageWriters :exec
-- Writers that ended long ago. One that lives has written since.
DELETE FROM key_usage_writers WHERE id IN (
    SELECT w.id FROM key_usage_writers w WHERE w.written_at < now() - make_interval(days => @days::int)
    FOR UPDATE SKIP LOCKED);

-- name: UsageOfAccount :many
-- Of more rows than most any are returned: who gets that many may ask for most and one, and use none of them.
SELECT u.day, k.prefix, u.requests, u.rate_limited
FROM (SELECT a.key_id, a.day, a.requests, a.rate_limited FROM key_usage a
      WHERE a.account_id = @account_id AND a.day BETWEEN @first AND @last
      LIMIT @most::int) u
JOIN api_keys k ON k.id = u.key_id
ORDER BY u.day, k.prefix;

-- name: KeyOfAccount :one
SELECT id FROM api_keys WHERE prefix = @prefix AND account_id = @account_id;

-- name: UsageOfKey :many
SELECT u.day, u.requests, u.rate_limited FROM key_usage u
WHERE u.key_id = @key_id AND u.day BETWEEN @first AND @last
ORDER BY u.day;
