-- name: OpenAttempt :exec
-- Counters and row in one statement. The learner's counter reads from the key's, so that every open of a key takes the
-- two row locks in the same order. The wait for each is bounded.
WITH bounded AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), of_key AS (
    INSERT INTO attempt_counters (family_id, exam_key, learner, total)
    SELECT sqlc.arg(family_id), sqlc.arg(exam_key), '', 1 FROM bounded
    ON CONFLICT (family_id, exam_key, learner) DO UPDATE SET total = attempt_counters.total + 1
    RETURNING total
), of_learner AS (
    INSERT INTO attempt_counters (family_id, exam_key, learner, total)
    SELECT sqlc.arg(family_id), sqlc.arg(exam_key), sqlc.arg(learner)::bytea, 1 FROM of_key WHERE sqlc.arg(learner)::bytea <> ''
    ON CONFLICT (family_id, exam_key, learner) DO UPDATE SET total = attempt_counters.total + 1
    RETURNING total
)
INSERT INTO attempts (id, account_id, family_id, key_id, exam_key, paper_id, paper_digest, learner, key_seq,
                      learner_seq, question_count, opened_at, expires_at)
SELECT sqlc.arg(id), sqlc.arg(account_id), sqlc.arg(family_id), sqlc.arg(key_id), sqlc.arg(exam_key), sqlc.arg(paper_id), sqlc.arg(paper_digest), sqlc.arg(learner)::bytea, of_key.total,
       (SELECT total FROM of_learner), sqlc.arg(question_count), sqlc.arg(opened_at), sqlc.narg(expires_at)::timestamptz
FROM of_key;

-- name: OpenAttempts :exec
-- The attempts of several callers. The counter rows must come sorted by family, exam and learner, compared as bytes: all
-- statements of all pods then lock them in one order, which is also that of OpenAttempt. A row's counters are subscripts of
-- the sorted totals; its number is the total less the attempts after it. No learner is subscript 0, which yields NULL. COLLATE
-- "C" sorts the totals as the caller has sorted the rows. A zero expires_at means none. The commit does not wait for the disk, so
-- it frees the counters at once. Answer no caller before FlushCommits. The wait for each counter is bounded.
WITH bounded AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), counted AS (
    INSERT INTO attempt_counters (family_id, exam_key, learner, total)
    SELECT c.family_id, c.exam_key, c.learner, c.opened
    FROM bounded, ROWS FROM (unnest(sqlc.arg(counter_families)::uuid[]), unnest(sqlc.arg(counter_exams)::text[]),
                    unnest(sqlc.arg(counter_learners)::bytea[]), unnest(sqlc.arg(counter_opened)::bigint[]))
        AS c (family_id, exam_key, learner, opened)
    ON CONFLICT (family_id, exam_key, learner) DO UPDATE SET total = attempt_counters.total + excluded.total
    RETURNING family_id, exam_key, learner, total
), sorted AS (
    SELECT array_agg(counted.total ORDER BY counted.family_id, counted.exam_key COLLATE "C", counted.learner) AS totals FROM counted
)
INSERT INTO attempts (id, account_id, family_id, key_id, exam_key, paper_id, paper_digest, learner, key_seq,
                      learner_seq, question_count, opened_at, expires_at)
SELECT r.id, r.account_id, r.family_id, r.key_id, r.exam_key, r.paper_id, r.paper_digest, r.learner,
       sorted.totals[r.key_counter] - r.key_after, sorted.totals[r.learner_counter] - r.learner_after,
       r.question_count, r.opened_at, nullif(r.expires_at, '0001-01-01 00:00:00+00')
FROM bounded, sorted, ROWS FROM (
    unnest(sqlc.arg(ids)::uuid[]), unnest(sqlc.arg(account_ids)::uuid[]), unnest(sqlc.arg(family_ids)::uuid[]),
    unnest(sqlc.arg(key_ids)::uuid[]), unnest(sqlc.arg(exam_keys)::text[]), unnest(sqlc.arg(paper_ids)::text[]),
    unnest(sqlc.arg(paper_digests)::bytea[]), unnest(sqlc.arg(learners)::bytea[]),
    unnest(sqlc.arg(key_counters)::int[]), unnest(sqlc.arg(key_after)::bigint[]),
    unnest(sqlc.arg(learner_counters)::int[]), unnest(sqlc.arg(learner_after)::bigint[]),
    unnest(sqlc.arg(question_counts)::int[]), unnest(sqlc.arg(opened_at)::timestamptz[]), unnest(sqlc.arg(expires_at)::timestamptz[])
) AS r (id, account_id, family_id, key_id, exam_key, paper_id, paper_digest, learner, key_counter, key_after,
        learner_counter, learner_after, question_count, opened_at, expires_at);

-- name: FlushCommits :execrows
-- Returns when all earlier commits are durable, as synchronous_commit says. The message is what this transaction commits. No row
-- means that this server does not have the attempt, so it has lost a commit.
SELECT pg_logical_emit_message(true, 'examprep', '') FROM attempts WHERE id = sqlc.arg(id);

-- name: FindAttempt :many
-- The attempts of one or several callers, without their answers, which can be large. Each caller must check that family, exam and
-- learner are its own.
SELECT id, family_id, exam_key, learner, paper_id, paper_digest, state, scoring_status, question_count, opened_at, expires_at,
       submitted_at, late, overtime_sec, score_hundredths, submission_digest
FROM attempts
WHERE id = ANY (sqlc.arg(ids)::uuid[]);

-- name: CloseAttempt :one
-- State, answers, score and events are one statement, so one transaction and one round trip. Nothing is written, and
-- closed is false, when the attempt is no longer in progress or has another deadline than the caller knows. The wait for the row is
-- bounded.
WITH bounded AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), closed AS (
    UPDATE attempts
    SET state = sqlc.arg(state), scoring_status = sqlc.arg(scoring_status), closed_at = sqlc.arg(submitted_at), submitted_at = sqlc.arg(submitted_at),
        late = sqlc.arg(late), overtime_sec = sqlc.arg(overtime_sec), score_hundredths = sqlc.narg(score_hundredths),
        answers = sqlc.arg(answers), submission_digest = sqlc.arg(submission_digest)
    FROM bounded
    WHERE id = sqlc.arg(id) AND state = 'in_progress' AND expires_at IS NOT DISTINCT FROM sqlc.narg(expires_at)::timestamptz
    RETURNING account_id
), told AS MATERIALIZED (
    SELECT webhook_record_events(array_agg(e.id), array_agg(e.kind), array_agg(closed.account_id), array_agg(e.body),
                                 array_agg(nullif(sqlc.arg(traceparent)::text, ''))) AS endpoints
    FROM closed, ROWS FROM (unnest(sqlc.arg(event_ids)::uuid[]), unnest(sqlc.arg(event_kinds)::text[]), unnest(sqlc.arg(event_bodies)::bytea[]))
        AS e (id, kind, body)
    HAVING count(*) > 0
)
SELECT EXISTS (SELECT FROM closed)::boolean AS closed, coalesce((SELECT told.endpoints FROM told), '{}')::uuid[] AS endpoints;

-- name: CloseAttempts :many
-- CloseAttempt for several attempts, each of them once, sorted by id. It returns the ids of those that were closed. Negative
-- hundredths of a score mean none, and so does a zero expires_at. The wait for each row is bounded.
WITH bounded AS MATERIALIZED (
    SELECT set_config('lock_timeout', sqlc.arg(lock_timeout)::text, true)
), closed AS (
    UPDATE attempts a
    SET state = r.state, scoring_status = r.scoring_status, closed_at = r.submitted_at, submitted_at = r.submitted_at,
        late = r.late, overtime_sec = r.overtime_sec, score_hundredths = CASE WHEN r.score >= 0 THEN r.score END,
        answers = r.answers, submission_digest = r.submission_digest
    FROM bounded, ROWS FROM (unnest(sqlc.arg(ids)::uuid[]), unnest(sqlc.arg(states)::text[]), unnest(sqlc.arg(scoring_statuses)::text[]),
                    unnest(sqlc.arg(submitted_at)::timestamptz[]), unnest(sqlc.arg(late)::boolean[]),
                    unnest(sqlc.arg(overtime_sec)::int[]), unnest(sqlc.arg(scores)::int[]), unnest(sqlc.arg(answers)::json[]),
                    unnest(sqlc.arg(submission_digests)::bytea[]), unnest(sqlc.arg(expires_at)::timestamptz[]))
        AS r (id, state, scoring_status, submitted_at, late, overtime_sec, score, answers, submission_digest, expires_at)
    WHERE a.id = r.id AND a.state = 'in_progress' AND a.expires_at IS NOT DISTINCT FROM nullif(r.expires_at, '0001-01-01 00:00:00+00')
    RETURNING a.id, a.account_id
), told AS MATERIALIZED (
    SELECT webhook_record_events(array_agg(e.id), array_agg(e.kind), array_agg(closed.account_id), array_agg(e.body),
                                 array_agg(nullif(e.traceparent, ''))) AS endpoints
    FROM ROWS FROM (unnest(sqlc.arg(event_attempts)::uuid[]), unnest(sqlc.arg(event_ids)::uuid[]), unnest(sqlc.arg(event_kinds)::text[]),
                    unnest(sqlc.arg(event_bodies)::bytea[]), unnest(sqlc.arg(event_traceparents)::text[]))
        AS e (attempt_id, id, kind, body, traceparent)
    JOIN closed ON closed.id = e.attempt_id
    HAVING count(*) > 0
)
SELECT closed.id, coalesce((SELECT told.endpoints FROM told), '{}')::uuid[] AS endpoints FROM closed;

-- name: FindInHand :one
-- The revision of the newest attempt in progress on a paper; due_since leaves out those whose time is over.
SELECT paper_digest
FROM attempts
WHERE family_id = sqlc.arg(family_id) AND exam_key = sqlc.arg(exam_key) AND paper_id = sqlc.arg(paper_id) AND learner = sqlc.arg(learner)
  AND state = 'in_progress' AND (expires_at IS NULL OR expires_at >= sqlc.arg(due_since))
ORDER BY opened_at DESC
LIMIT 1;

-- name: KeyHistory :many
-- The sequence is dense, so a page is an index range whatever its offset, and the counter is the total. The constant
-- limit is the largest page, and tells the planner how little it reads. From the range alone it would expect a ninth of the key's
-- attempts, and compile or parallelise the query for them.
SELECT c.total, a.id, a.paper_id, a.state, a.score_hundredths, a.opened_at, a.expires_at, a.submitted_at
FROM attempt_counters c
CROSS JOIN LATERAL (
    SELECT * FROM attempts
    WHERE attempts.family_id = sqlc.arg(family_id) AND attempts.exam_key = sqlc.arg(exam_key)
      AND attempts.key_seq <= c.total - sqlc.arg(skip)::bigint
      AND attempts.key_seq > c.total - sqlc.arg(skip)::bigint - sqlc.arg(page_size)::bigint
    ORDER BY attempts.key_seq DESC LIMIT 50
) a
WHERE c.family_id = sqlc.arg(family_id) AND c.exam_key = sqlc.arg(exam_key) AND c.learner = ''
ORDER BY a.key_seq DESC;

-- name: LearnerHistory :many
SELECT c.total, a.id, a.paper_id, a.state, a.score_hundredths, a.opened_at, a.expires_at, a.submitted_at
FROM attempt_counters c
CROSS JOIN LATERAL (
    SELECT * FROM attempts
    WHERE attempts.family_id = sqlc.arg(family_id) AND attempts.exam_key = sqlc.arg(exam_key)
      AND attempts.learner = sqlc.arg(learner)
      AND attempts.learner_seq <= c.total - sqlc.arg(skip)::bigint
      AND attempts.learner_seq > c.total - sqlc.arg(skip)::bigint - sqlc.arg(page_size)::bigint
    ORDER BY attempts.learner_seq DESC LIMIT 50
) a
WHERE c.family_id = sqlc.arg(family_id) AND c.exam_key = sqlc.arg(exam_key) AND c.learner = sqlc.arg(learner)
ORDER BY a.learner_seq DESC;

-- name: CountAttempts :one
-- For a page that is empty. The learner '' counts all of the key's attempts. No row means that the key has no attempt on the exam, of
-- any learner.
SELECT coalesce((
    SELECT c.total FROM attempt_counters c
    WHERE c.family_id = sqlc.arg(family_id) AND c.exam_key = sqlc.arg(exam_key) AND c.learner = sqlc.arg(learner)), 0)::bigint AS total
FROM attempt_counters k
WHERE k.family_id = sqlc.arg(family_id) AND k.exam_key = sqlc.arg(exam_key) AND k.learner = '';

-- name: ExpireAttempt :exec
-- Closes an attempt as the sweep does. The time is PostgreSQL's, so a pod with a wrong clock closes no attempt early.
UPDATE attempts
SET state = 'expired', scoring_status = 'not_scored', closed_at = now()
WHERE id = sqlc.arg(id) AND state = 'in_progress'
  AND expires_at < now() - make_interval(secs => sqlc.arg(late_seconds)::float8);

-- name: OverdueAttempts :many
-- SKIP LOCKED leaves out submissions in progress, and the rows that another worker is closing.
SELECT id FROM attempts
WHERE state = 'in_progress' AND expires_at < now() - make_interval(secs => sqlc.arg(late_seconds)::float8)
  AND id <> ALL (sqlc.arg(skipped)::uuid[])
ORDER BY expires_at
LIMIT sqlc.arg(batch)
FOR UPDATE SKIP LOCKED;

-- name: ExpireAttempts :execrows
-- The list of ids makes PostgreSQL search by index, however many rows it expects.
WITH free AS MATERIALIZED (
    SELECT a.id FROM attempts a
    WHERE a.id = ANY (sqlc.arg(ids)::uuid[]) AND a.state = 'in_progress'
    FOR UPDATE SKIP LOCKED
)
UPDATE attempts
SET state = 'expired', scoring_status = 'not_scored', closed_at = now()
WHERE id = ANY (ARRAY(SELECT free.id FROM free));

-- name: OldestOverdue :one
-- The seconds by which the oldest overdue attempt is late, 0 if there is none.
SELECT coalesce(extract(epoch FROM now() - make_interval(secs => sqlc.arg(late_seconds)::float8) - (
    SELECT a.expires_at FROM attempts a
    WHERE a.state = 'in_progress' AND a.expires_at < now() - make_interval(secs => sqlc.arg(late_seconds)::float8)
    ORDER BY a.expires_at LIMIT 1)), 0)::float8 AS seconds;
