-- The baseline's own tables. They have the columns, indexes and storage settings of the product at commit 220ae0e.
CREATE TABLE attempt_counters (
    family_id uuid NOT NULL,
    exam_key  text NOT NULL,
    learner   bytea NOT NULL,
    total     bigint NOT NULL,
    PRIMARY KEY (family_id, exam_key, learner)
) WITH (fillfactor = 50);

CREATE TABLE attempts (
    id                uuid PRIMARY KEY,
    account_id        uuid NOT NULL,
    family_id         uuid NOT NULL,
    key_id            uuid NOT NULL,
    exam_key          text NOT NULL,
    paper_id          text NOT NULL,
    paper_digest      bytea NOT NULL,
    learner           bytea NOT NULL DEFAULT '',
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
    score_hundredths  integer CHECK (score_hundredths BETWEEN 0 AND 10000),
    answers           jsonb,
    submission_digest bytea CHECK (octet_length(submission_digest) = 32),
    CHECK ((state = 'in_progress') = (closed_at IS NULL)),
    CHECK ((scoring_status = 'scored') = (score_hundredths IS NOT NULL))
);
CREATE UNIQUE INDEX attempts_history ON attempts (family_id, exam_key, key_seq);
CREATE UNIQUE INDEX attempts_learner_history ON attempts (family_id, exam_key, learner, learner_seq)
    WHERE learner_seq IS NOT NULL;
CREATE INDEX attempts_overdue ON attempts (expires_at) WHERE state = 'in_progress' AND expires_at IS NOT NULL;
CREATE INDEX attempts_in_hand ON attempts (family_id, paper_id, learner, opened_at) WHERE state = 'in_progress';
CREATE INDEX attempts_by_revision ON attempts (exam_key, paper_digest);

-- The events of a submit. No endpoint subscribes, so each costs one row and the look for endpoints.
CREATE TABLE endpoints (
    id         uuid PRIMARY KEY,
    account_id uuid,
    events     text[] NOT NULL,
    status     text NOT NULL
);
CREATE INDEX endpoints_by_account ON endpoints (account_id);

CREATE TABLE events (
    id         uuid PRIMARY KEY,
    kind       text NOT NULL,
    account_id uuid,
    body       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (id);
CREATE TABLE events_default PARTITION OF events DEFAULT;

CREATE TABLE deliveries (
    id          uuid PRIMARY KEY,
    event_id    uuid NOT NULL,
    endpoint_id uuid NOT NULL
);

CREATE FUNCTION record_event(p_id uuid, p_kind text, p_account uuid, p_body bytea) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    written bigint;
BEGIN
    INSERT INTO events (id, kind, account_id, body) VALUES (p_id, p_kind, p_account, p_body);
    INSERT INTO deliveries (id, event_id, endpoint_id)
    SELECT gen_random_uuid(), p_id, e.id
    FROM endpoints e
    WHERE e.status = 'enabled'
      AND p_kind = ANY (e.events)
      AND (e.account_id IS NULL OR p_account IS NULL OR e.account_id = p_account);
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;

CREATE TABLE exams (exam_key text PRIMARY KEY);

CREATE TABLE paper_revisions (
    exam_key         text NOT NULL REFERENCES exams,
    digest           bytea NOT NULL CHECK (octet_length(digest) = 32),
    paper_id         text NOT NULL,
    seal_digest      bytea NOT NULL CHECK (octet_length(seal_digest) = 32),
    title            text NOT NULL,
    subject          text NOT NULL,
    year             integer NOT NULL,
    duration_minutes integer NOT NULL,
    question_count   integer NOT NULL,
    metadata         json NOT NULL,
    questions        json NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (exam_key, digest)
);
CREATE INDEX paper_revisions_by_paper ON paper_revisions (exam_key, paper_id);

CREATE TABLE paper_answer_keys (
    exam_key   text NOT NULL,
    digest     bytea NOT NULL,
    answer_key json NOT NULL,
    PRIMARY KEY (exam_key, digest),
    FOREIGN KEY (exam_key, digest) REFERENCES paper_revisions ON DELETE CASCADE
);

-- A server that was built without lz4 keeps its default compression.
DO $$
BEGIN
    ALTER TABLE paper_revisions ALTER COLUMN questions SET COMPRESSION lz4;
    ALTER TABLE paper_answer_keys ALTER COLUMN answer_key SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'no lz4: papers are compressed by the default method';
END
$$;
