-- name: ExamState :one
-- The one SELECT of a publish that finds nothing to do.
SELECT claim_cluster, claim_namespace, claim_name, revision, digest, withdrawn FROM exams WHERE exam_key = $1;

-- name: PinnedState :one
-- ExamState for a pin: also the pinned revision, if there is one, and its papers.
SELECT e.claim_cluster, e.claim_namespace, e.claim_name, e.revision, e.digest, e.withdrawn,
       p.digest AS pinned_digest, p.document AS pinned_document,
       papers.ids::text[] AS paper_ids, papers.digests::bytea[] AS paper_digests,
       papers.sealed::boolean[] AS paper_sealed, papers.verifications::text[] AS paper_verifications
FROM exams e
LEFT JOIN exam_revisions p ON p.exam_key = e.exam_key AND p.revision = sqlc.arg(pin)
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(x.paper_id ORDER BY x.paper_id), '{}') AS ids,
           coalesce(array_agg(x.digest ORDER BY x.paper_id), '{}') AS digests,
           coalesce(array_agg(x.sealed ORDER BY x.paper_id), '{}') AS sealed,
           coalesce(array_agg(coalesce(x.verification::text, 'null') ORDER BY x.paper_id), '{}') AS verifications
    FROM exam_revision_papers x
    WHERE x.exam_key = e.exam_key AND x.revision = sqlc.arg(pin)
) papers
WHERE e.exam_key = sqlc.arg(exam_key);

-- name: InsertExam :exec
INSERT INTO exams (exam_key, claim_cluster, claim_namespace, claim_name)
VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING;

-- name: LockExam :one
-- No join here: a SELECT … FOR UPDATE that waited sees the row's new version, but other tables as they were before.
SELECT claim_cluster, claim_namespace, claim_name, revision, digest, withdrawn
FROM exams
WHERE exam_key = $1
FOR UPDATE;

-- name: MoveClaim :exec
UPDATE exams SET claim_cluster = $2, claim_namespace = $3, claim_name = $4 WHERE exam_key = $1;

-- name: ReleaseClaim :exec
UPDATE exams
SET claim_cluster = NULL, claim_namespace = NULL, claim_name = NULL,
    withdrawn = withdrawn OR sqlc.arg(withdraw)::boolean,
    updated_at = sqlc.arg(at)
WHERE exam_key = sqlc.arg(exam_key);

-- name: StagedPapers :many
SELECT digest FROM paper_revisions WHERE exam_key = $1 AND digest = ANY (sqlc.arg(digests)::bytea[]);

-- name: StagePaper :batchexec
WITH staged AS (
    INSERT INTO paper_revisions (exam_key, digest, paper_id, seal_digest, title, subject, year, duration_minutes,
                                 question_count, metadata, questions)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    ON CONFLICT DO NOTHING
    RETURNING exam_key, digest
)
INSERT INTO paper_answer_keys (exam_key, digest, answer_key)
SELECT exam_key, digest, sqlc.arg(answer_key)::json FROM staged;

-- name: FlipExam :exec
-- Everything that makes a staged revision the published one, in one round trip: revision, papers, pointer, claim,
-- event, and the word to the API pods.
WITH revised AS (
    INSERT INTO exam_revisions (exam_key, revision, digest, document, restored_from, created_at)
    VALUES (sqlc.arg(exam_key), sqlc.arg(revision), sqlc.arg(digest), sqlc.arg(document), sqlc.narg(restored_from),
            sqlc.arg(at))
    RETURNING exam_key, revision
), papers AS (
    INSERT INTO exam_revision_papers (exam_key, revision, paper_id, digest, sealed, verification)
    SELECT revised.exam_key, revised.revision, p.paper_id, p.digest, p.sealed, nullif(p.verification, 'null')::json
    FROM revised, (SELECT unnest(sqlc.arg(paper_ids)::text[]) AS paper_id,
                          unnest(sqlc.arg(paper_digests)::bytea[]) AS digest,
                          unnest(sqlc.arg(paper_sealed)::boolean[]) AS sealed,
                          unnest(sqlc.arg(paper_verifications)::text[]) AS verification) p
), flipped AS (
    UPDATE exams
    SET revision = sqlc.arg(revision), digest = sqlc.arg(digest), withdrawn = false, updated_at = sqlc.arg(at),
        claim_cluster = sqlc.arg(cluster)::text, claim_namespace = sqlc.arg(namespace)::text,
        claim_name = sqlc.arg(name)::text
    WHERE exams.exam_key = sqlc.arg(exam_key)
)
SELECT webhook_record_event(sqlc.arg(event_id)::uuid, sqlc.arg(event_kind)::text, NULL, sqlc.arg(event_body)::bytea),
       pg_notify('examprep_catalog', sqlc.arg(exam_key)::text);

-- name: TellWithdrawn :exec
SELECT webhook_record_event(sqlc.arg(event_id)::uuid, sqlc.arg(event_kind)::text, NULL, sqlc.arg(event_body)::bytea),
       pg_notify('examprep_catalog', sqlc.arg(exam_key)::text);

-- name: PruneRevisions :exec
-- Drops the revisions beyond the limit whose successor is older than "before": a pod that has not heard of it yet may
-- still open a paper of theirs.
DELETE FROM exam_revisions old
WHERE old.exam_key = sqlc.arg(exam_key)
  AND old.revision <= sqlc.arg(keep_after)::bigint
  AND EXISTS (SELECT FROM exam_revisions next
              WHERE next.exam_key = old.exam_key AND next.revision > old.revision
                AND next.created_at < sqlc.arg(before)::timestamptz);

-- name: PrunePapers :exec
-- Drops the paper revisions that no revision of the exam holds any more and no attempt has opened, with their keys.
DELETE FROM paper_revisions p
WHERE p.exam_key = sqlc.arg(exam_key)
  AND NOT EXISTS (SELECT FROM exam_revision_papers x WHERE x.exam_key = p.exam_key AND x.digest = p.digest)
  AND NOT EXISTS (SELECT FROM attempts a WHERE a.exam_key = p.exam_key AND a.paper_digest = p.digest);

-- name: RevisionDocument :one
SELECT document FROM exam_revisions WHERE exam_key = $1 AND revision = $2;

-- name: RevisionPapers :many
SELECT x.paper_id, x.digest, p.title, p.seal_digest, x.sealed, x.verification
FROM exam_revision_papers x
JOIN paper_revisions p ON p.exam_key = x.exam_key AND p.digest = x.digest
WHERE x.exam_key = $1 AND x.revision = $2
ORDER BY x.paper_id;

-- name: WholePaper :one
-- A paper with its answers: for its owner (diff), never for a request.
SELECT p.paper_id, p.title, p.subject, p.year, p.metadata, p.questions, k.answer_key
FROM paper_revisions p
JOIN paper_answer_keys k ON k.exam_key = p.exam_key AND k.digest = p.digest
WHERE p.exam_key = $1 AND p.digest = $2;

-- name: CatalogStates :many
SELECT exam_key, revision, withdrawn FROM exams WHERE revision > 0;

-- name: CatalogExams :many
SELECT e.exam_key, e.revision, e.withdrawn, r.document
FROM exams e
JOIN exam_revisions r ON r.exam_key = e.exam_key AND r.revision = e.revision
WHERE e.exam_key = ANY (sqlc.arg(exam_keys)::text[]);

-- name: CatalogPapers :many
-- The papers of given revisions. republished: the paper has another revision, to which an attempt may point.
SELECT x.exam_key, x.paper_id, x.digest, p.title, p.subject, p.year, p.question_count,
       EXISTS (SELECT FROM paper_revisions o
               WHERE o.exam_key = x.exam_key AND o.paper_id = x.paper_id AND o.digest <> x.digest) AS republished
FROM (SELECT unnest(sqlc.arg(exam_keys)::text[]) AS exam_key,
             unnest(sqlc.arg(revisions)::bigint[]) AS revision) wanted
JOIN exam_revision_papers x ON x.exam_key = wanted.exam_key AND x.revision = wanted.revision
JOIN paper_revisions p ON p.exam_key = x.exam_key AND p.digest = x.digest
ORDER BY x.exam_key, x.paper_id;

-- name: PaperRevision :one
SELECT paper_id, duration_minutes, questions FROM paper_revisions WHERE exam_key = $1 AND digest = $2;

-- name: PaperAnswerKey :one
SELECT answer_key FROM paper_answer_keys WHERE exam_key = $1 AND digest = $2;
