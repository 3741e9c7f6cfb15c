-- +goose Up
-- Owned by server/attempts.

-- How many attempts a key family has on an exam, in all (learner '') and for each learner: the next sequence number of
-- history, and its total, without a count over rows.
CREATE TABLE attempt_counters (
    family_id uuid NOT NULL,
    exam_key  text NOT NULL,
    learner   bytea NOT NULL,
    total     bigint NOT NULL,
    PRIMARY KEY (family_id, exam_key, learner)
) WITH (fillfactor = 50); -- every open updates a row here: with room in the page the update touches no index

CREATE TABLE attempts (
    id                uuid PRIMARY KEY,
    account_id        uuid NOT NULL,
    family_id         uuid NOT NULL,
    key_id            uuid NOT NULL,
    exam_key          text NOT NULL,
    paper_id          text NOT NULL,
    -- The revision that was opened; the attempt is paged and scored by it, whatever is published later.
    paper_digest      bytea NOT NULL CHECK (octet_length(paper_digest) = 32),
    -- HMAC-SHA256 of the learner reference; '' when none was given. The reference itself is stored nowhere.
    learner           bytea NOT NULL DEFAULT '',
    -- Dense, from 1: the attempt's place in the history of the key family, and of its learner.
    key_seq           bigint NOT NULL,
    learner_seq       bigint,
    state             text NOT NULL DEFAULT 'in_progress'
                      CHECK (state IN ('in_progress', 'submitted', 'expired', 'abandoned')),
    scoring_status    text NOT NULL DEFAULT 'pending' CHECK (scoring_status IN ('pending', 'scored', 'not_scored')),
    question_count    integer NOT NULL,
    opened_at         timestamptz NOT NULL,
    expires_at        timestamptz,
    closed_at         timestamptz,
    submitted_at      timestamptz,
    late              boolean NOT NULL DEFAULT false,
    overtime_sec      integer NOT NULL DEFAULT 0,
    -- The percentage in hundredths: 0 to 10000. An integer, so that no score is rounded as a float.
    score_hundredths  integer CHECK (score_hundredths BETWEEN 0 AND 10000),
    -- Normalised answers by answer_id, and the SHA-256 of the requested status and these answers: a retry is recognised
    -- by it. Both are NULL while in progress, and for good in an attempt that the sweep closed. The answers are json, because
    -- no statement reads them: the column has exactly the bytes that the digest covers.
    answers           json,
    submission_digest bytea CHECK (octet_length(submission_digest) = 32),
    CHECK ((state = 'in_progress') = (closed_at IS NULL)),
    CHECK ((scoring_status = 'scored') = (score_hundredths IS NOT NULL))
    -- No foreign key to paper_revisions: its row lock would make every open of a popular paper write to one row.
    -- The catalogue never prunes a revision that was opened (paper_revisions.opened).
);
CREATE UNIQUE INDEX attempts_history ON attempts (family_id, exam_key, key_seq);
CREATE UNIQUE INDEX attempts_learner_history ON attempts (family_id, exam_key, learner, learner_seq)
    WHERE learner_seq IS NOT NULL;
CREATE INDEX attempts_overdue ON attempts (expires_at) WHERE state = 'in_progress' AND expires_at IS NOT NULL;
CREATE INDEX attempts_in_hand ON attempts (family_id, paper_id, learner, opened_at) WHERE state = 'in_progress';
