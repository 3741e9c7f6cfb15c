-- name: OpenAttempt :one
-- Counters and row in one statement. The learner's counter reads from the key's, so that every open of a key takes the
-- two row locks in the same order.
WITH of_key AS (
    INSERT INTO attempt_counters (family_id, exam_key, learner, total)
    VALUES (sqlc.arg(family_id), sqlc.arg(exam_key), '', 1)
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
FROM of_key
RETURNING key_seq;

-- name: FindAttempt :one
-- Whose it is stands in the condition: another key's, learner's or exam's attempt is not found.
SELECT id, paper_id, paper_digest, state, scoring_status, question_count, opened_at, expires_at, submitted_at, late,
       overtime_sec, score_hundredths, answers, submission_digest
FROM attempts
WHERE id = sqlc.arg(id) AND family_id = sqlc.arg(family_id) AND exam_key = sqlc.arg(exam_key) AND learner = sqlc.arg(learner);

-- name: CloseAttempt :one
-- State, answers, score and events are one statement, so one transaction and one round trip. Nothing is written, and
-- closed is false, when the attempt is no longer in progress.
WITH closed AS (
    UPDATE attempts
    SET state = sqlc.arg(state), scoring_status = sqlc.arg(scoring_status), closed_at = sqlc.arg(submitted_at), submitted_at = sqlc.arg(submitted_at),
        late = sqlc.arg(late), overtime_sec = sqlc.arg(overtime_sec), score_hundredths = sqlc.narg(score_hundredths),
        answers = sqlc.arg(answers), submission_digest = sqlc.arg(submission_digest)
    WHERE id = sqlc.arg(id) AND state = 'in_progress'
    RETURNING account_id
), told AS MATERIALIZED (
    SELECT webhook_record_event(e.id, e.kind, closed.account_id, e.body) AS deliveries
    FROM closed, ROWS FROM (unnest(sqlc.arg(event_ids)::uuid[]), unnest(sqlc.arg(event_kinds)::text[]), unnest(sqlc.arg(event_bodies)::bytea[]))
        AS e (id, kind, body)
)
SELECT EXISTS (SELECT FROM closed)::boolean AS closed,
       (SELECT coalesce(sum(deliveries), 0) FROM told)::bigint AS deliveries;

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
-- limit, the largest page there is, tells the planner how little it reads: from the range alone it would expect a ninth
-- of the key's attempts, and compile or parallelise the query for them.
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
-- For a page that is empty. The learner '' counts all of the key's attempts.
SELECT total FROM attempt_counters
WHERE family_id = sqlc.arg(family_id) AND exam_key = sqlc.arg(exam_key) AND learner = sqlc.arg(learner);

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
