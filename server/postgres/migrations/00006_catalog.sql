-- +goose Up
-- Owned by server/catalog. The content of a revision never changes. Its rows are inserted and pruned, and repaired if they were edited.
CREATE TABLE exams (
    exam_key        text PRIMARY KEY,
    -- The claim: the one resource that this exam belongs to. All NULL: released, free for the next claimant.
    claim_cluster   text,
    claim_namespace text,
    claim_name      text,
    -- The published revision; 0 while the exam is claimed and nothing is published yet. It only grows.
    revision        bigint NOT NULL DEFAULT 0,
    -- The published revision's digest, so that finding nothing to publish reads one row; NULL while nothing is.
    digest          bytea CHECK (octet_length(digest) = 32),
    -- Withdrawn exams are not served; their revisions stay for the attempts in hand.
    withdrawn       boolean NOT NULL DEFAULT false,
    -- How often published content was repaired. A cache by digest also needs this number in its key.
    repairs         bigint NOT NULL DEFAULT 0,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    CHECK (num_nulls(claim_cluster, claim_namespace, claim_name) IN (0, 3))
);

-- Documents are json, not jsonb: what is served is byte for byte what was declared, and jsonb would reorder members,
-- rewrite numbers and refuse \u0000.
CREATE TABLE exam_revisions (
    exam_key      text NOT NULL REFERENCES exams,
    revision      bigint NOT NULL CHECK (revision > 0),
    -- SHA-256 over the exam's own fields and its papers' digests and seals: equal content, equal digest.
    digest        bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- The exam without its papers: the domain type as JSON.
    document      json NOT NULL,
    -- The earlier revision whose content this one brings back (a pin).
    restored_from bigint,
    -- Computed by catalog_revision_fingerprint when the row is written. A check computes it again from what is stored, so a
    -- change made in the database, behind the digests, is noticed.
    fingerprint   bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (exam_key, revision)
);

CREATE TABLE paper_revisions (
    exam_key         text NOT NULL REFERENCES exams,
    -- SHA-256 over the paper's canonical form and what it takes from the exam (duration, scoring).
    digest           bytea NOT NULL CHECK (octet_length(digest) = 32),
    paper_id         text NOT NULL,
    -- SHA-256 over the canonical form alone: what verification.digest seals.
    seal_digest      bytea NOT NULL CHECK (octet_length(seal_digest) = 32),
    title            text NOT NULL,
    subject          text NOT NULL,
    year             integer NOT NULL,
    -- The paper's, else the exam's; 0 is without time limit.
    duration_minutes integer NOT NULL,
    question_count   integer NOT NULL,
    -- The paper's other fields (its own duration, language, marking, provenance).
    metadata         json NOT NULL,
    -- What requests are rendered from, without a trace of the key.
    questions        json NOT NULL,
    fingerprint      bytea NOT NULL, -- by catalog_paper_fingerprint, as in exam_revisions
    -- Set before the first attempt opens the revision. Such a revision is never pruned, because its attempts need it.
    opened           boolean NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (exam_key, digest)
);
CREATE INDEX paper_revisions_by_paper ON paper_revisions (exam_key, paper_id);

-- Apart from the questions, so that no read for a request can bring an answer along by mistake.
CREATE TABLE paper_answer_keys (
    exam_key   text NOT NULL,
    digest     bytea NOT NULL,
    answer_key json NOT NULL,
    PRIMARY KEY (exam_key, digest),
    FOREIGN KEY (exam_key, digest) REFERENCES paper_revisions ON DELETE CASCADE
);

-- Papers are large and written more often than read (a pod reads each once): lz4 halves the time of a publish. A server
-- built without it keeps its default.
-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE paper_revisions ALTER COLUMN questions SET COMPRESSION lz4;
    ALTER TABLE paper_answer_keys ALTER COLUMN answer_key SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'this server has no lz4: papers are compressed by its default method';
END
$$;
-- +goose StatementEnd

CREATE TABLE exam_revision_papers (
    exam_key     text NOT NULL,
    revision     bigint NOT NULL,
    paper_id     text NOT NULL,
    digest       bytea NOT NULL,
    -- The reviewer's seal belongs to the exam's revision, not to the paper's: a paper may be sealed after it was
    -- published (sandbox), and its revision never changes. sealed: the seal matched the content.
    sealed       boolean NOT NULL,
    verification json,
    PRIMARY KEY (exam_key, revision, paper_id),
    FOREIGN KEY (exam_key, revision) REFERENCES exam_revisions ON DELETE CASCADE,
    FOREIGN KEY (exam_key, digest) REFERENCES paper_revisions
);
CREATE INDEX exam_revision_papers_by_digest ON exam_revision_papers (exam_key, digest);

-- The last repair of each exam, for its owner to read: the changes may show answers.
CREATE TABLE exam_repairs (
    exam_key text PRIMARY KEY REFERENCES exams ON DELETE CASCADE,
    -- The revision that was right again after it.
    revision bigint NOT NULL,
    at       timestamptz NOT NULL,
    changes  json NOT NULL
);

-- Every setting of the session that could change a text (time zone, bytea_output, client_encoding) is kept out of these.
-- SQL functions of one expression are inlined: a reader of many rows pays no call.
-- +goose StatementBegin
CREATE FUNCTION catalog_paper_fingerprint(paper_id text, seal_digest bytea, title text, subject text, year integer,
    duration_minutes integer, question_count integer, metadata json, questions json, answer_key json) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT sha256(
        sha256(convert_to(ROW(paper_id, encode(seal_digest, 'hex'), title, subject, year, duration_minutes, question_count,
                              metadata::text)::text, 'UTF8'))
        || sha256(convert_to(questions::text, 'UTF8')) || sha256(convert_to(answer_key::text, 'UTF8')))
$$;
-- +goose StatementEnd

-- A paper's line in the list that catalog_revision_fingerprint takes.
-- +goose StatementBegin
CREATE FUNCTION catalog_paper_line(paper_id text, digest bytea, sealed boolean, verification json) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT ROW(paper_id, encode(digest, 'hex'), sealed, verification::text)::text
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION catalog_revision_fingerprint(digest bytea, document json, created_at timestamptz, papers text) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(ROW(encode(digest, 'hex'), document::text, (extract(epoch FROM created_at) * 1000000)::bigint,
                                 papers)::text, 'UTF8'))
$$;
-- +goose StatementEnd
