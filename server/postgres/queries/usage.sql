-- name: AddUsage :one
-- One batch of a writer's counts, unless it is in already: then added is false. A repeated batch waits here for the
-- statement that first brought it, if that is still running. Rows are taken in one order by all pods, so that none waits
-- for another in a circle. What is counted for a key that does not exist is left out. unnoted are the keys whose own row
-- does not say yet that they were used on such a day (TouchKeys); a last use of 'epoch' is none.
WITH writer AS (
    INSERT INTO key_usage_writers AS w (id, batch, written_at) VALUES (@writer, @batch, now())
    ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at WHERE w.batch < excluded.batch
    RETURNING w.id
), counted AS (
    SELECT c.key_id, c.day, k.account_id, c.requests, c.rate_limited, nullif(c.used, 'epoch') AS used, k.last_used_at AS noted
    FROM (SELECT unnest(@keys::uuid[]) AS key_id, unnest(@days::date[]) AS day, unnest(@requests::bigint[]) AS requests,
                 unnest(@rate_limited::bigint[]) AS rate_limited, unnest(@used::timestamptz[]) AS used) c
    JOIN api_keys k ON k.id = c.key_id
), added AS (
    INSERT INTO key_usage AS u (key_id, day, account_id, requests, rate_limited, last_used_at)
    SELECT c.key_id, c.day, c.account_id, c.requests, c.rate_limited, c.used
    FROM counted c
    WHERE EXISTS (SELECT FROM writer)
    ORDER BY c.key_id, c.day
    ON CONFLICT (key_id, day) DO UPDATE
    SET requests = u.requests + excluded.requests, rate_limited = u.rate_limited + excluded.rate_limited,
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)
    RETURNING u.key_id
)
SELECT EXISTS (SELECT FROM writer)::boolean AS added,
       ARRAY(SELECT c.key_id FROM counted c
             WHERE c.used IS NOT NULL AND (c.noted IS NULL OR c.noted < c.day::timestamp AT TIME ZONE 'UTC'))::uuid[] AS unnoted;

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
