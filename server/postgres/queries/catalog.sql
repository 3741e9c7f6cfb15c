-- name: ExamState :one
-- The one SELECT of a publish that finds nothing to do. intact: what is stored of the published revision is, to the byte,
-- what was written, and the pointer stands on the newest revision.
SELECT e.claim_cluster, e.claim_namespace, e.claim_name, e.revision, e.digest, e.withdrawn,
       r.created_at AS published_at,
       coalesce(r.digest = e.digest AND papers.intact
           AND r.fingerprint = catalog_revision_fingerprint(r.digest, r.document, r.created_at, papers.lines)
           AND NOT EXISTS (SELECT FROM exam_revisions n WHERE n.exam_key = e.exam_key AND n.revision > e.revision),
           false)::boolean AS intact,
       repaired.at AS repaired_at, repaired.changes AS repaired_changes
FROM exams e
LEFT JOIN exam_revisions r ON r.exam_key = e.exam_key AND r.revision = e.revision
LEFT JOIN exam_repairs repaired ON repaired.exam_key = e.exam_key AND repaired.revision = e.revision
CROSS JOIN LATERAL (
    SELECT coalesce(string_agg(catalog_paper_line(x.paper_id, x.digest, x.sealed, x.verification), ','
                               ORDER BY x.paper_id COLLATE "C"), '') AS lines,
           coalesce(bool_and(coalesce(p.fingerprint = catalog_paper_fingerprint(p.paper_id, p.seal_digest, p.title, p.subject,
               p.year, p.duration_minutes, p.question_count, p.metadata, p.questions, k.answer_key), false)), true) AS intact
    FROM exam_revision_papers x
    LEFT JOIN paper_revisions p ON p.exam_key = x.exam_key AND p.digest = x.digest
    LEFT JOIN paper_answer_keys k ON k.exam_key = p.exam_key AND k.digest = p.digest
    WHERE x.exam_key = e.exam_key AND x.revision = e.revision
) papers
WHERE e.exam_key = $1;

-- name: PinnedState :one
-- ExamState for a pin: also the pinned revision, if there is one, and its papers. pinned_intact: its own rows are what was
-- written; whether its papers are, is looked at where it is published.
SELECT e.claim_cluster, e.claim_namespace, e.claim_name, e.revision, e.digest, e.withdrawn,
       r.created_at AS published_at,
       coalesce(r.digest = e.digest AND current.intact
           AND r.fingerprint = catalog_revision_fingerprint(r.digest, r.document, r.created_at, current.lines)
           AND NOT EXISTS (SELECT FROM exam_revisions n WHERE n.exam_key = e.exam_key AND n.revision > e.revision),
           false)::boolean AS intact,
       repaired.at AS repaired_at, repaired.changes AS repaired_changes,
       p.digest AS pinned_digest, p.document AS pinned_document,
       coalesce(p.fingerprint = catalog_revision_fingerprint(p.digest, p.document, p.created_at, papers.lines),
                false)::boolean AS pinned_intact,
       papers.ids::text[] AS paper_ids, papers.digests::bytea[] AS paper_digests,
       papers.seals::bytea[] AS paper_seals, papers.verifications::text[] AS paper_verifications,
       papers.counts::integer[] AS paper_counts
FROM exams e
LEFT JOIN exam_revisions r ON r.exam_key = e.exam_key AND r.revision = e.revision
LEFT JOIN exam_revisions p ON p.exam_key = e.exam_key AND p.revision = sqlc.arg(pin)
LEFT JOIN exam_repairs repaired ON repaired.exam_key = e.exam_key AND repaired.revision = e.revision
CROSS JOIN LATERAL (
    SELECT coalesce(string_agg(catalog_paper_line(x.paper_id, x.digest, x.sealed, x.verification), ','
                               ORDER BY x.paper_id COLLATE "C"), '') AS lines,
           coalesce(bool_and(coalesce(o.fingerprint = catalog_paper_fingerprint(o.paper_id, o.seal_digest, o.title, o.subject,
               o.year, o.duration_minutes, o.question_count, o.metadata, o.questions, k.answer_key), false)), true) AS intact
    FROM exam_revision_papers x
    LEFT JOIN paper_revisions o ON o.exam_key = x.exam_key AND o.digest = x.digest
    LEFT JOIN paper_answer_keys k ON k.exam_key = o.exam_key AND k.digest = o.digest
    WHERE x.exam_key = e.exam_key AND x.revision = e.revision
) current
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(x.paper_id ORDER BY x.paper_id), '{}') AS ids,
           coalesce(array_agg(x.digest ORDER BY x.paper_id), '{}') AS digests,
           coalesce(array_agg(coalesce(q.seal_digest, '') ORDER BY x.paper_id), '{}') AS seals,
           coalesce(array_agg(coalesce(x.verification::text, 'null') ORDER BY x.paper_id), '{}') AS verifications,
           coalesce(array_agg(coalesce(q.question_count, 0) ORDER BY x.paper_id), '{}') AS counts,
           coalesce(string_agg(catalog_paper_line(x.paper_id, x.digest, x.sealed, x.verification), ','
                               ORDER BY x.paper_id COLLATE "C"), '') AS lines
    FROM exam_revision_papers x
    LEFT JOIN paper_revisions q ON q.exam_key = x.exam_key AND q.digest = x.digest
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
-- Those of some papers that are stored, and are what was written.
SELECT p.digest
FROM paper_revisions p
JOIN paper_answer_keys k ON k.exam_key = p.exam_key AND k.digest = p.digest
WHERE p.exam_key = $1 AND p.digest = ANY (sqlc.arg(digests)::bytea[])
  AND p.fingerprint = catalog_paper_fingerprint(p.paper_id, p.seal_digest, p.title, p.subject, p.year, p.duration_minutes,
                                                p.question_count, p.metadata, p.questions, k.answer_key);

-- name: StagePaper :batchexec
-- A paper that is stored already, and comes here all the same, is not what its digest says: it is put right.
WITH staged AS (
    INSERT INTO paper_revisions (exam_key, digest, paper_id, seal_digest, title, subject, year, duration_minutes,
                                 question_count, metadata, questions, fingerprint)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
            catalog_paper_fingerprint($3, $4, $5, $6, $7, $8, $9, $10, $11, sqlc.arg(answer_key)::json))
    ON CONFLICT (exam_key, digest) DO UPDATE
    SET paper_id = excluded.paper_id, seal_digest = excluded.seal_digest, title = excluded.title,
        subject = excluded.subject, year = excluded.year, duration_minutes = excluded.duration_minutes,
        question_count = excluded.question_count, metadata = excluded.metadata, questions = excluded.questions,
        fingerprint = excluded.fingerprint
    RETURNING exam_key, digest
)
INSERT INTO paper_answer_keys (exam_key, digest, answer_key)
SELECT exam_key, digest, sqlc.arg(answer_key)::json FROM staged
ON CONFLICT (exam_key, digest) DO UPDATE SET answer_key = excluded.answer_key;

-- name: FlipExam :exec
-- Everything that makes a staged revision the published one, in one round trip: revision, papers, pointer, claim,
-- event, and the word to the API pods.
WITH listed AS (
    SELECT unnest(sqlc.arg(paper_ids)::text[]) AS paper_id, unnest(sqlc.arg(paper_digests)::bytea[]) AS digest,
           unnest(sqlc.arg(paper_sealed)::boolean[]) AS sealed,
           nullif(unnest(sqlc.arg(paper_verifications)::text[]), 'null')::json AS verification
), revised AS (
    INSERT INTO exam_revisions (exam_key, revision, digest, document, restored_from, created_at, fingerprint)
    SELECT sqlc.arg(exam_key), sqlc.arg(revision), sqlc.arg(digest)::bytea, sqlc.arg(document)::json,
           sqlc.narg(restored_from), sqlc.arg(at)::timestamptz,
           catalog_revision_fingerprint(sqlc.arg(digest)::bytea, sqlc.arg(document)::json, sqlc.arg(at)::timestamptz, (
               SELECT coalesce(string_agg(catalog_paper_line(l.paper_id, l.digest, l.sealed, l.verification), ','
                                          ORDER BY l.paper_id COLLATE "C"), '') FROM listed l))
    RETURNING exam_key, revision
), papers AS (
    INSERT INTO exam_revision_papers (exam_key, revision, paper_id, digest, sealed, verification)
    SELECT revised.exam_key, revised.revision, l.paper_id, l.digest, l.sealed, l.verification
    FROM revised, listed l
), flipped AS (
    UPDATE exams
    SET revision = sqlc.arg(revision), digest = sqlc.arg(digest), withdrawn = false, updated_at = sqlc.arg(at),
        claim_cluster = sqlc.arg(cluster)::text, claim_namespace = sqlc.arg(namespace)::text,
        claim_name = sqlc.arg(name)::text
    WHERE exams.exam_key = sqlc.arg(exam_key)
)
SELECT webhook_record_event(sqlc.arg(event_id)::uuid, sqlc.arg(event_kind)::text, NULL, sqlc.arg(event_body)::bytea),
       pg_notify('examprep_catalog', sqlc.arg(exam_key)::text);

-- name: MendRevision :exec
-- Puts the rows of the published revision back to what its digest says. Its papers are put right before.
WITH listed AS (
    SELECT unnest(sqlc.arg(paper_ids)::text[]) AS paper_id, unnest(sqlc.arg(paper_digests)::bytea[]) AS digest,
           unnest(sqlc.arg(paper_sealed)::boolean[]) AS sealed,
           nullif(unnest(sqlc.arg(paper_verifications)::text[]), 'null')::json AS verification
), strays AS (
    DELETE FROM exam_revision_papers s
    WHERE s.exam_key = sqlc.arg(exam_key) AND s.revision = sqlc.arg(revision)
      AND s.paper_id <> ALL (sqlc.arg(paper_ids)::text[])
), revised AS (
    INSERT INTO exam_revisions (exam_key, revision, digest, document, created_at, fingerprint)
    SELECT sqlc.arg(exam_key), sqlc.arg(revision), sqlc.arg(digest)::bytea, sqlc.arg(document)::json,
           sqlc.arg(at)::timestamptz,
           catalog_revision_fingerprint(sqlc.arg(digest)::bytea, sqlc.arg(document)::json, sqlc.arg(at)::timestamptz, (
               SELECT coalesce(string_agg(catalog_paper_line(l.paper_id, l.digest, l.sealed, l.verification), ','
                                          ORDER BY l.paper_id COLLATE "C"), '') FROM listed l))
    ON CONFLICT (exam_key, revision) DO UPDATE
    SET digest = excluded.digest, document = excluded.document, created_at = excluded.created_at,
        fingerprint = excluded.fingerprint
), papers AS (
    INSERT INTO exam_revision_papers (exam_key, revision, paper_id, digest, sealed, verification)
    SELECT sqlc.arg(exam_key), sqlc.arg(revision), l.paper_id, l.digest, l.sealed, l.verification FROM listed l
    ON CONFLICT (exam_key, revision, paper_id) DO UPDATE
    SET digest = excluded.digest, sealed = excluded.sealed, verification = excluded.verification
)
UPDATE exams SET digest = sqlc.arg(digest)::bytea WHERE exams.exam_key = sqlc.arg(exam_key);

-- name: NoteRepair :exec
-- The caches of the pods are told apart by exams.repairs, which is why it comes in the repair's transaction.
WITH counted AS (
    UPDATE exams SET repairs = repairs + 1 WHERE exams.exam_key = sqlc.arg(exam_key)
)
INSERT INTO exam_repairs (exam_key, revision, at, changes)
VALUES (sqlc.arg(exam_key), sqlc.arg(revision), sqlc.arg(at), sqlc.arg(changes))
ON CONFLICT (exam_key) DO UPDATE SET revision = excluded.revision, at = excluded.at, changes = excluded.changes;

-- name: Tell :exec
SELECT webhook_record_event(sqlc.arg(event_id)::uuid, sqlc.arg(event_kind)::text, NULL, sqlc.arg(event_body)::bytea),
       pg_notify('examprep_catalog', sqlc.arg(exam_key)::text);

-- name: BoundLocks :exec
-- Bounds the wait for each lock until the transaction ends.
SELECT set_config('lock_timeout', sqlc.arg(wait)::text, true);

-- name: OldRevisions :many
-- The revisions that can be pruned. Kept are the newest "keep" rows, whatever their numbers, the published revision, and the one that
-- it restored. A revision is kept too until its successor is older than "before": until then a pod may still open a paper of it.
SELECT old.revision FROM exam_revisions old
JOIN exam_revisions published ON published.exam_key = old.exam_key AND published.revision = sqlc.arg(published)::bigint
WHERE old.exam_key = sqlc.arg(exam_key)
  AND old.revision <> published.revision AND old.revision IS DISTINCT FROM published.restored_from
  AND old.revision NOT IN (SELECT kept.revision FROM exam_revisions kept WHERE kept.exam_key = sqlc.arg(exam_key)
                           ORDER BY kept.revision DESC LIMIT sqlc.arg(keep)::integer)
  AND EXISTS (SELECT FROM exam_revisions next
              WHERE next.exam_key = old.exam_key AND next.revision > old.revision
                AND next.created_at < sqlc.arg(before)::timestamptz)
ORDER BY old.revision;

-- name: DropRevisions :exec
-- Skips locked rows, so it never waits for another transaction.
DELETE FROM exam_revisions r WHERE r.exam_key = sqlc.arg(exam_key) AND r.revision IN (
    SELECT old.revision FROM exam_revisions old
    WHERE old.exam_key = sqlc.arg(exam_key) AND old.revision = ANY (sqlc.arg(revisions)::bigint[]) FOR UPDATE SKIP LOCKED);

-- name: UnusedPapers :many
-- The paper revisions that no revision of the exam lists and that no attempt has opened.
SELECT p.digest FROM paper_revisions p
WHERE p.exam_key = sqlc.arg(exam_key) AND NOT p.opened
  AND NOT EXISTS (SELECT FROM exam_revision_papers x WHERE x.exam_key = p.exam_key AND x.digest = p.digest);

-- name: DropPapers :exec
-- Deletes paper revisions, with their answer keys, if they are still unused. It and MarkOpened lock the same row: the one that comes
-- second sees what the first one committed. It skips locked rows, so it never waits.
DELETE FROM paper_revisions d WHERE d.exam_key = sqlc.arg(exam_key) AND NOT d.opened AND d.digest IN (
    SELECT p.digest FROM paper_revisions p
    WHERE p.exam_key = sqlc.arg(exam_key) AND p.digest = ANY (sqlc.arg(digests)::bytea[]) AND NOT p.opened
      AND NOT EXISTS (SELECT FROM exam_revision_papers x WHERE x.exam_key = p.exam_key AND x.digest = p.digest)
    FOR UPDATE OF p SKIP LOCKED);

-- name: MarkOpened :one
-- Keeps a paper revision from being pruned. It returns no row if the revision does not exist.
UPDATE paper_revisions SET opened = true WHERE exam_key = $1 AND digest = $2 RETURNING opened;

-- name: StoredRevision :one
-- A revision, if it is there, and the newest there is.
SELECT coalesce((SELECT max(n.revision) FROM exam_revisions n WHERE n.exam_key = wanted.exam_key), 0)::bigint AS newest,
       r.digest, r.document, r.created_at,
       coalesce(r.fingerprint = catalog_revision_fingerprint(r.digest, r.document, r.created_at, (
           SELECT coalesce(string_agg(catalog_paper_line(x.paper_id, x.digest, x.sealed, x.verification), ','
                                      ORDER BY x.paper_id COLLATE "C"), '')
           FROM exam_revision_papers x WHERE x.exam_key = r.exam_key AND x.revision = r.revision)), false)::boolean AS intact
FROM (SELECT sqlc.arg(exam_key)::text AS exam_key, sqlc.arg(revision)::bigint AS revision) wanted
LEFT JOIN exam_revisions r ON r.exam_key = wanted.exam_key AND r.revision = wanted.revision;

-- name: RevisionPaperIDs :many
SELECT paper_id FROM exam_revision_papers WHERE exam_key = $1 AND revision = $2 ORDER BY paper_id;

-- name: RevisionPapers :many
SELECT x.paper_id, x.digest, p.title, p.seal_digest, x.sealed, x.verification, p.question_count,
       coalesce(p.fingerprint = catalog_paper_fingerprint(p.paper_id, p.seal_digest, p.title, p.subject, p.year,
           p.duration_minutes, p.question_count, p.metadata, p.questions, k.answer_key), false)::boolean AS intact
FROM exam_revision_papers x
LEFT JOIN paper_revisions p ON p.exam_key = x.exam_key AND p.digest = x.digest
LEFT JOIN paper_answer_keys k ON k.exam_key = p.exam_key AND k.digest = p.digest
WHERE x.exam_key = $1 AND x.revision = $2
ORDER BY x.paper_id;

-- name: StoredPaper :one
-- All that is stored of a paper, to tell how it differs from what it should be.
SELECT p.paper_id, p.seal_digest, p.title, p.subject, p.year, p.duration_minutes, p.question_count, p.metadata, p.questions,
       k.answer_key
FROM paper_revisions p
LEFT JOIN paper_answer_keys k ON k.exam_key = p.exam_key AND k.digest = p.digest
WHERE p.exam_key = $1 AND p.digest = $2;

-- name: WholePaper :one
-- A paper with its answers: for its owner (diff), never for a request.
SELECT p.paper_id, p.title, p.subject, p.year, p.metadata, p.questions, k.answer_key
FROM paper_revisions p
JOIN paper_answer_keys k ON k.exam_key = p.exam_key AND k.digest = p.digest
WHERE p.exam_key = $1 AND p.digest = $2;

-- name: CatalogStates :many
SELECT exam_key, revision, withdrawn, repairs FROM exams WHERE revision > 0;

-- name: CatalogExams :many
-- The document is NULL if the exam is withdrawn, and if the row of its published revision is missing. papers has those of the
-- revision, the newest year first. other_revisions: the paper has another revision, to which an attempt may point.
SELECT e.exam_key, e.revision, e.withdrawn, e.repairs, r.document,
       (SELECT coalesce(json_agg(json_build_object(
                   'paper_id', x.paper_id, 'digest', 'sha256:' || encode(x.digest, 'hex'), 'title', p.title, 'subject', p.subject,
                   'year', p.year, 'question_count', p.question_count, 'other_revisions', EXISTS (
                       SELECT FROM paper_revisions o
                       WHERE o.exam_key = x.exam_key AND o.paper_id = x.paper_id AND o.digest <> x.digest))
               ORDER BY p.year DESC, x.paper_id COLLATE "C"), '[]')
        FROM exam_revision_papers x
        JOIN paper_revisions p ON p.exam_key = x.exam_key AND p.digest = x.digest
        WHERE x.exam_key = e.exam_key AND x.revision = e.revision AND NOT e.withdrawn)::json AS papers
FROM exams e
LEFT JOIN exam_revisions r ON r.exam_key = e.exam_key AND r.revision = e.revision AND NOT e.withdrawn
WHERE e.exam_key = ANY (sqlc.arg(exam_keys)::text[]) AND e.revision > 0;

-- name: PaperRevision :one
SELECT paper_id, duration_minutes, question_count, questions FROM paper_revisions WHERE exam_key = $1 AND digest = $2;

-- name: PaperAnswerKey :one
-- The answer key is NULL if its row is missing.
SELECT p.question_count, k.answer_key
FROM paper_revisions p
LEFT JOIN paper_answer_keys k ON k.exam_key = p.exam_key AND k.digest = p.digest
WHERE p.exam_key = $1 AND p.digest = $2;
