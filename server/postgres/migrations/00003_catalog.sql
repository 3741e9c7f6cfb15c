-- +goose Up
-- Owned by server/catalog. Revisions are immutable: rows are inserted and pruned, never updated.
CREATE TABLE exams (
    exam_key        text PRIMARY KEY,
    -- The claim: the one resource that this exam belongs to. All NULL: released (deletionPolicy Retain).
    claim_cluster   text,
    claim_namespace text,
    claim_name      text,
    -- The published revision; 0 while the exam is claimed and nothing is published yet.
    revision        bigint NOT NULL DEFAULT 0,
    withdrawn       boolean NOT NULL DEFAULT false,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    CHECK (num_nulls(claim_cluster, claim_namespace, claim_name) IN (0, 3))
);

CREATE TABLE exam_revisions (
    exam_key   text NOT NULL REFERENCES exams,
    revision   bigint NOT NULL CHECK (revision > 0),
    -- SHA-256 over the exam's own fields and its papers' revision digests, in order.
    digest     bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- The exam without its papers: the domain type as JSON.
    document   jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (exam_key, revision)
);

CREATE TABLE paper_revisions (
    exam_key         text NOT NULL REFERENCES exams,
    -- SHA-256 over the paper's canonical form and what it takes from the exam (duration, scoring).
    digest           bytea NOT NULL CHECK (octet_length(digest) = 32),
    paper_id         text NOT NULL,
    -- The canonical form alone: what verification.digest seals.
    seal_digest      bytea NOT NULL CHECK (octet_length(seal_digest) = 32),
    sealed           boolean NOT NULL,
    title            text NOT NULL,
    subject          text NOT NULL,
    year             integer,
    duration_minutes integer,
    question_count   integer NOT NULL,
    -- The paper's metadata (provenance, language, verification) and its questions, without a trace of the key.
    metadata         jsonb NOT NULL,
    questions        jsonb NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (exam_key, digest)
);
CREATE INDEX paper_revisions_by_paper ON paper_revisions (exam_key, paper_id);

-- Apart from the questions, so that no read for a request can bring an answer along by mistake.
CREATE TABLE paper_answer_keys (
    exam_key   text NOT NULL,
    digest     bytea NOT NULL,
    answer_key jsonb NOT NULL,
    PRIMARY KEY (exam_key, digest),
    FOREIGN KEY (exam_key, digest) REFERENCES paper_revisions ON DELETE CASCADE
);

CREATE TABLE exam_revision_papers (
    exam_key text NOT NULL,
    revision bigint NOT NULL,
    position integer NOT NULL,
    paper_id text NOT NULL,
    digest   bytea NOT NULL,
    PRIMARY KEY (exam_key, revision, position),
    UNIQUE (exam_key, revision, paper_id),
    FOREIGN KEY (exam_key, revision) REFERENCES exam_revisions ON DELETE CASCADE,
    FOREIGN KEY (exam_key, digest) REFERENCES paper_revisions
);
CREATE INDEX exam_revision_papers_by_digest ON exam_revision_papers (exam_key, digest);
